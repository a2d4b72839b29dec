/* A product as the problem of simt.h: what the builders that share its loads and stores start from. */
#ifndef WEFT_CODEGEN_BUILDERS_SIMT_PRODUCT_H
#define WEFT_CODEGEN_BUILDERS_SIMT_PRODUCT_H

#include "codegen/builders/matmul.h"
#include "codegen/builders/product.h"
#include "codegen/builders/simt.h"

/* product and index stay the caller's and outlive s. */
void weft_simt_product(weft_simt *s, const weft_build_request *request, weft_kernel *k, weft_index_context *index,
                       const weft_product *product);

#endif
