/* Coefficients of the polynomials in math_*.c, lowest power first; printed by scripts/math_coefficients.py.
   error: worst relative error of the whole function through this polynomial, before evaluation rounding. */
#ifndef WEFT_CODEGEN_KERNEL_MATH_COEFFICIENTS_H
#define WEFT_CODEGEN_KERNEL_MATH_COEFFICIENTS_H

#include <stdint.h>

/* 2 / pi, 64 bits a word, after one word of zeros */
static const uint64_t two_over_pi[21] = {0,
                                         0xa2f9836e4e441529,
                                         0xfc2757d1f534ddc0,
                                         0xdb6295993c439041,
                                         0xfe5163abdebbc561,
                                         0xb7246e3a424dd2e0,
                                         0x06492eea09d1921c,
                                         0xfe1deb1cb129a73e,
                                         0xe88235f52ebb4484,
                                         0xe99c7026b45f7e41,
                                         0x3991d639835339f4,
                                         0x9c845f8bbdf9283b,
                                         0x1ff897ffde05980f,
                                         0xef2f118b5a0a6d1f,
                                         0x6d367ecf27cb09b7,
                                         0x4f463f669e5fea2d,
                                         0x7527bac7ebe5f17b,
                                         0x3d0739f78a5292ea,
                                         0x6bfb5fb11f8d5d08,
                                         0x56033046fc7b6bab,
                                         0xf0cfbc209af4361d};
/* (expm1(r) - r) / r^2, |r| <= ln2 / 2; error 2^-26.1 */
static const double exp_f32[5] = {0x1.fffffe0000000p-2, 0x1.5554ae0000000p-3, 0x1.5557220000000p-5,
                                  0x1.1228c00000000p-7, 0x1.6b65080000000p-10};
/* (log1p(f) - f + f^2/2) / f^3, 1 + f in [sqrt(1/2), sqrt(2)]; error 2^-27.1 */
static const double log_f32_polynomial[8] = {0x1.5555640000000p-2,  -0x1.00023c0000000p-2, 0x1.9998600000000p-3,
                                             -0x1.5467900000000p-3, 0x1.2364380000000p-3,  -0x1.0e68260000000p-3,
                                             0x1.025bea0000000p-3,  -0x1.2d36360000000p-4};
/* (log((1+s)/(1-s))/s - 2) / z, z = s^2; error 2^-30.2 */
static const double log_ratio_f32[3] = {0x1.55557a0000000p-1, 0x1.995ed80000000p-2, 0x1.31e03c0000000p-2};
/* the same less 2/3, over z; error 2^-43.6 */
static const double log_tail_f32[4] = {0x1.9999980000000p-2, 0x1.2493ac0000000p-2, 0x1.c644a60000000p-3,
                                       0x1.8fedc60000000p-3};
/* (sin(r)/r - 1) / z, z = r^2, |r| <= pi/4; error 2^-27.8 */
static const double sin_f32[3] = {-0x1.5555440000000p-3, 0x1.1106e60000000p-7, -0x1.992cf20000000p-13};
/* (cos(r) - 1 + z/2) / z^2; error 2^-33.0 */
static const double cos_f32[3] = {0x1.55554a0000000p-5, -0x1.6c0c2a0000000p-10, 0x1.99e9100000000p-16};
/* (asin(x)/x - 1) / z, z = x^2, |x| <= 1/2; error 2^-27.6 */
static const double asin_f32[5] = {0x1.5555c80000000p-3, 0x1.3302460000000p-4, 0x1.7472120000000p-5,
                                   0x1.8caece0000000p-6, 0x1.58f4600000000p-5};
/* (atan(x)/x - 1) / z, z = x^2, |x| <= 1; error 2^-28.2 */
static const double atan_f32[9] = {-0x1.55553a0000000p-2, 0x1.9991000000000p-3,  -0x1.24177a0000000p-3,
                                   0x1.c0317e0000000p-4,  -0x1.5709ba0000000p-4, 0x1.d6de140000000p-5,
                                   -0x1.f722e60000000p-6, 0x1.5d871a0000000p-7,  -0x1.c7dc840000000p-10};
/* (expm1(r) - r) / r^2, |r| <= ln2 / 2; error 2^-55.5 */
static const double exp_f64[10] = {
    0x1.0000000000005p-1,  0x1.555555555553dp-3,  0x1.555555555211bp-5,  0x1.1111111118202p-7,  0x1.6c16c17f2a47ep-10,
    0x1.a01a017988595p-13, 0x1.a019a6b0a186cp-16, 0x1.71de7e6c93d4bp-19, 0x1.28a2802a5ad6ep-22, 0x1.ae7a6233557c8p-26};
/* (log((1+s)/(1-s))/s - 2) / z, z = s^2; error 2^-59.4 */
static const double log_ratio_f64[7] = {0x1.5555555555594p-1, 0x1.999999997f72dp-2, 0x1.249249423c734p-2,
                                        0x1.c71c51d50fa2ap-3, 0x1.7466486178ecdp-3, 0x1.39a0ddfa994c2p-3,
                                        0x1.2f0d5e2c92795p-3};
/* the same less 2/3, over z; error 2^-73.2 */
static const double log_tail_f64[8] = {0x1.9999999999995p-2, 0x1.2492492493150p-2, 0x1.c71c71c56444fp-3,
                                       0x1.745d183dec639p-3, 0x1.3b135fff863dfp-3, 0x1.112112a7d433ep-3,
                                       0x1.de26213628c94p-4, 0x1.eb76255ddc6b8p-4};
/* (sin(r)/r - 1) / z, z = r^2, |r| <= pi/4; error 2^-57.9 */
static const double sin_f64[6] = {-0x1.5555555555548p-3, 0x1.111111110f75cp-7,   -0x1.a01a019bf1fc4p-13,
                                  0x1.71de355ee5043p-19, -0x1.ae5e545b758bcp-26, 0x1.5d8e2f8d91d30p-33};
/* (cos(r) - 1 + z/2) / z^2; error 2^-63.8 */
static const double cos_f64[6] = {0x1.555555555554ap-5,   -0x1.6c16c16c14e49p-10, 0x1.a01a019c68759p-16,
                                  -0x1.27e4f7d8dc0aep-22, 0x1.1ee9ccade9593p-29,  -0x1.8f9f5c401d211p-37};
/* (asin(x)/x - 1) / z, z = x^2, |x| <= 1/2; error 2^-59.8 */
static const double asin_f64[13] = {
    0x1.5555555555576p-3, 0x1.333333332e3cdp-4,  0x1.6db6db71f042dp-5, 0x1.f1c71aa268624p-6, 0x1.6e8bdd59f3cecp-6,
    0x1.1c4a0c33dcb7ep-6, 0x1.ca1cec27f0751p-7,  0x1.759b222ddbf0ep-7, 0x1.60c37c53569f8p-7, 0x1.ed16b9d7001d8p-9,
    0x1.61736be6b58eap-6, -0x1.54f2adff088c8p-6, 0x1.0a5498ba841a0p-5};
/* (atan(x)/x - 1) / z, z = x^2, |x| <= 1; error 2^-57.3 */
static const double atan_f64[20] = {
    -0x1.555555555551dp-2, 0x1.9999999994b2ap-3,  -0x1.249249235b8ddp-3, 0x1.c71c7177f1d86p-4,   -0x1.745d112838a0ep-4,
    0x1.3b1360a94707cp-4,  -0x1.110e21d2aa6f8p-4, 0x1.e1b97f3da4f64p-5,  -0x1.ae55096997cb9p-5,  0x1.82bb6365a8f4dp-5,
    -0x1.5952abd1e9b9ep-5, 0x1.2b8aa9f506f5cp-5,  -0x1.e7f86ec5a95ebp-6, 0x1.65cb8622058a2p-6,   -0x1.c2ff51fdfd16cp-7,
    0x1.d14dfd9d85a16p-8,  -0x1.73a83b984ef2fp-9, 0x1.aac07ebff3d86p-11, -0x1.37417a0ff51ecp-13, 0x1.af3c2a9a965ccp-17};
/* (-log(erfc(x)) / x - 2 / sqrt(pi)) / x, 0 <= x <= 3.93; error 2^-27.7 */
static const double erf_bend_f32[8] = {0x1.45f3000000000p-1,   0x1.a4f88a0000000p-4,  -0x1.39b2280000000p-6,
                                       -0x1.6a30c00000000p-13, 0x1.b83fde0000000p-10, -0x1.4f5b600000000p-11,
                                       0x1.f570f20000000p-14,  -0x1.3dc4c00000000p-17};
/* erf(x)/x in z = x^2, |x| <= 1; error 2^-56.0 */
static const double erf_f64[12] = {0x1.20dd750429b6dp+0,   -0x1.812746b0379b1p-2,  0x1.ce2f21a04082ep-4,
                                   -0x1.b82ce311eba5fp-6,  0x1.565bccf79918cp-8,   -0x1.c02db00a4932ep-11,
                                   0x1.f9a2b66c1a280p-14,  -0x1.f4ca130bd4b37p-17, 0x1.b97dc7cd14904p-20,
                                   -0x1.5bfb9f8386962p-23, 0x1.d6d1129df1c7dp-27,  -0x1.aadfed8c5cab7p-31};
/* erfcx(x) in t = (x - 2) / (x + 2), 1 <= x <= 6; error 2^-55.5 */
static const double erfcx_f64[17] = {
    0x1.058671b52c776p-2,  -0x1.b57034efd3f74p-2,  0x1.eeea7dc8a7867p-3,   -0x1.437f0b68c04ccp-4, 0x1.e947159820bc0p-9,
    0x1.ca95ed50b650bp-8,  -0x1.bc25a4cd0ce5dp-11, -0x1.016b5b4b6be92p-10, 0x1.6d5f47c29c053p-15, 0x1.6da867c18cd00p-13,
    0x1.cdcbf2a5d3ca0p-16, -0x1.ce5a3bd4c0458p-16, -0x1.d55d386d3ad83p-17, 0x1.56cf4d2398835p-20, 0x1.0c812f6580784p-18,
    0x1.6b34d1d146ebap-20, -0x1.4074b8d890e10p-20};

#endif
