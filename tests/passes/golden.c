/* Golden snippets: a graph before and after a pass, in text. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "ir/print.h"
#include "ir/verify.h"
#include "passes/pass.h"

/* Bodies: the lines between "graph @t {" and "}", without indentation. */
typedef struct golden {
    const char *name, *pipeline, *before, *after;
} golden;

#define X_IN  "input %0 \"x\" : f32[2, 3]\n"
#define XB_IN "symbol B in [1, 8] divisor 1\ninput %0 \"x\" : f32[B, 4]\n"

static const golden goldens[] = {
    {"add zero", "simplify",
     X_IN "%1 = constant {value = dense f32[] [0]} : f32[]\n"
          "%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n%3 = add %2, %0 : f32[2, 3]\noutput \"y\" %3\n",
     X_IN "output \"y\" %0\n"},
    {"mul by a dense constant of ones", "simplify",
     X_IN
     "%1 = constant {value = dense f32[1, 3] [1, 1, 1]} : f32[1, 3]\n"
     "%2 = broadcast %1 {shape = [2, 3], axes = [0, 1]} : f32[2, 3]\n%3 = mul %2, %0 : f32[2, 3]\noutput \"y\" %3\n",
     X_IN "output \"y\" %0\n"},
    {"mul by zero keeps NaN of floats", "simplify",
     X_IN "%1 = constant {value = dense f32[] [0]} : f32[]\n"
          "%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n%3 = mul %0, %2 : f32[2, 3]\noutput \"y\" %3\n",
     X_IN "%1 = constant {value = dense f32[] [0]} : f32[]\n"
          "%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n%3 = mul %0, %2 : f32[2, 3]\noutput \"y\" %3\n"},
    {"weights that a product reads transposed stay as they lie", "simplify",
     X_IN
     "%1 = constant {value = dense f32[2, 3] [1, 2, 3, 4, 5, 6]} : f32[2, 3]\n"
     "%2 = transpose %1 {permutation = [1, 0]} : f32[3, 2]\n"
     "%3 = dot_general %0, %2 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], dtype = f32} : f32[2, 2]\noutput \"y\" %3\n",
     X_IN
     "%1 = constant {value = dense f32[2, 3] [1, 2, 3, 4, 5, 6]} : f32[2, 3]\n"
     "%2 = dot_general %0, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[2, 2]\noutput \"y\" %2\n"},
    {"what follows a product goes before a reshape by unit axes", "simplify",
     "input %0 \"x\" : f32[2, 3]\ninput %1 \"b\" : f32[4]\ninput %2 \"w\" : f32[4, 3]\n"
     "%3 = dot_general %0, %2 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[2, 4]\n"
     "%4 = reshape %3 {shape = [2, 4, 1, 1]} : f32[2, 4, 1, 1]\n"
     "%5 = broadcast %1 {shape = [2, 4, 1, 1], axes = [1]} : f32[2, 4, 1, 1]\n%6 = add %4, %5 : f32[2, 4, 1, 1]\n"
     "%7 = tanh %6 : f32[2, 4, 1, 1]\noutput \"y\" %7\n",
     "input %0 \"x\" : f32[2, 3]\ninput %1 \"b\" : f32[4]\ninput %2 \"w\" : f32[4, 3]\n"
     "%3 = dot_general %0, %2 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[2, 4]\n"
     "%4 = broadcast %1 {shape = [2, 4], axes = [1]} : f32[2, 4]\n%5 = add %3, %4 : f32[2, 4]\n%6 = tanh %5 : f32[2, 4]\n"
     "%7 = reshape %6 {shape = [2, 4, 1, 1]} : f32[2, 4, 1, 1]\noutput \"y\" %7\n"},
    {"two products behind reshapes settle", "simplify",
     "input %0 \"x\" : f32[2, 3]\ninput %1 \"z\" : f32[1, 2, 3]\ninput %2 \"w\" : f32[4, 3]\n"
     "%3 = dot_general %0, %2 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[2, 4]\n"
     "%4 = dot_general %1, %2 {lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [1], dtype = f32} : f32[1, 2, 4]\n"
     "%5 = reshape %3 {shape = [2, 4, 1]} : f32[2, 4, 1]\n%6 = reshape %4 {shape = [2, 4, 1]} : f32[2, 4, 1]\n"
     "%7 = add %5, %6 : f32[2, 4, 1]\noutput \"y\" %7\n",
     "input %0 \"x\" : f32[2, 3]\ninput %1 \"z\" : f32[1, 2, 3]\ninput %2 \"w\" : f32[4, 3]\n"
     "%3 = dot_general %0, %2 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[2, 4]\n"
     "%4 = dot_general %1, %2 {lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [1], dtype = f32} : f32[1, 2, 4]\n"
     "%5 = reshape %3 {shape = [1, 2, 4]} : f32[1, 2, 4]\n%6 = add %5, %4 : f32[1, 2, 4]\n"
     "%7 = reshape %6 {shape = [2, 4, 1]} : f32[2, 4, 1]\noutput \"y\" %7\n"},
    {"mul by zero of integers", "simplify",
     "input %0 \"x\" : i32[2]\n%1 = constant {value = dense i32[2] [0, 0]} : i32[2]\n%2 = mul %0, %1 : i32[2]\noutput \"y\" %2\n",
     "input %0 \"x\" : i32[2]\n%1 = constant {value = dense i32[] [0]} : i32[]\n"
     "%2 = broadcast %1 {shape = [2], axes = []} : i32[2]\noutput \"y\" %2\n"},
    /* x is f32[N], the sum f32[M]: equal under a guard only, so users keep the type they were inferred from */
    {"types that are equal under a guard", "simplify",
     "symbol N in [1, 8] divisor 1\nsymbol M in [1, 8] divisor 1\nassume M == N, by \"build\"\ninput %0 \"x\" : f32[N]\n"
     "%1 = constant {value = dense f32[] [0]} : f32[]\n%2 = broadcast %1 {shape = [M], axes = []} : f32[M]\n"
     "%3 = add %2, %0 : f32[M]\noutput \"y\" %3\n",
     "symbol N in [1, 8] divisor 1\nsymbol M in [1, 8] divisor 1\nassume M == N, by \"build\"\ninput %0 \"x\" : f32[N]\n"
     "%1 = constant {value = dense f32[] [0]} : f32[]\n%2 = broadcast %1 {shape = [M], axes = []} : f32[M]\n"
     "%3 = add %2, %0 : f32[M]\noutput \"y\" %3\n"},
    {"a branch whose types are equal under a guard", "simplify",
     "symbol N in [1, 8] divisor 1\nsymbol M in [1, 8] divisor 1\nassume M == N, by \"build\"\ninput %0 \"x\" : f32[N]\n"
     "input %1 \"z\" : f32[M]\n%2 = constant {value = dense bool[] [0]} : bool[]\n%3, %4 = cond %2 {\nyield %0, %0\n} {\nyield %1, %1\n} : f32[N], f32[N]\n"
     "%5 = exp %4 : f32[N]\noutput \"a\" %3\noutput \"b\" %5\n",
     "symbol N in [1, 8] divisor 1\nsymbol M in [1, 8] divisor 1\nassume M == N, by \"build\"\ninput %0 \"x\" : f32[N]\n"
     "input %1 \"z\" : f32[M]\n%2 = reshape %1 {shape = [N]} : f32[N]\n%3 = exp %2 : f32[N]\noutput \"a\" %2\noutput \"b\" %3\n"},
    {"common subexpressions and dead code", "simplify",
     X_IN
     "%1 = exp %0 : f32[2, 3]\n%2 = exp %0 : f32[2, 3]\n%3 = log %0 : f32[2, 3]\n%4 = add %1, %2 : f32[2, 3]\noutput \"y\" %4\n",
     X_IN "%1 = exp %0 : f32[2, 3]\n%2 = add %1, %1 : f32[2, 3]\noutput \"y\" %2\n"},
    {"attention asked for its log-sum-exp later", "simplify",
     "input %0 \"q\" : f32[1, 2, 3, 4]\n"
     "%1 = attention %0, %0, %0 {scale = 0, causal = 1, soft_cap = 0, window_left = -1, window_right = -1} : f32[1, 2, 3, 4]\n"
     "%2 = exp %1 : f32[1, 2, 3, 4]\n"
     "%3, %4 = attention %0, %0, %0 {scale = 0, causal = 1, soft_cap = 0, window_left = -1, window_right = -1, lse = 1} : f32[1, 2, 3, 4], f32[1, 2, 3]\n"
     "%5 = log %3 : f32[1, 2, 3, 4]\n%6 = exp %4 : f32[1, 2, 3]\noutput \"a\" %2\noutput \"b\" %5\noutput \"c\" %6\n",
     "input %0 \"q\" : f32[1, 2, 3, 4]\n"
     "%1, %2 = attention %0, %0, %0 {scale = 0, causal = 1, soft_cap = 0, window_left = -1, window_right = -1, lse = 1} : f32[1, 2, 3, 4], f32[1, 2, 3]\n"
     "%3 = exp %1 : f32[1, 2, 3, 4]\n%4 = log %1 : f32[1, 2, 3, 4]\n%5 = exp %2 : f32[1, 2, 3]\n"
     "output \"a\" %3\noutput \"b\" %4\noutput \"c\" %5\n"},
    {"convert chain that is exact", "simplify",
     "input %0 \"x\" : bf16[2]\n%1 = convert %0 {dtype = f32} : f32[2]\n%2 = convert %1 {dtype = bf16} : bf16[2]\noutput \"y\" %2\n",
     "input %0 \"x\" : bf16[2]\noutput \"y\" %0\n"},
    {"convert chain that rounds stays", "simplify",
     "input %0 \"x\" : f32[2]\n%1 = convert %0 {dtype = bf16} : bf16[2]\n%2 = convert %1 {dtype = f32} : f32[2]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[2]\n%1 = convert %0 {dtype = bf16} : bf16[2]\n%2 = convert %1 {dtype = f32} : f32[2]\noutput \"y\" %2\n"},
    {"integers through floats saturate: the chain stays", "simplify",
     "input %0 \"x\" : i16[2]\n%1 = convert %0 {dtype = f32} : f32[2]\n%2 = convert %1 {dtype = i8} : i8[2]\noutput \"y\" %2\n",
     "input %0 \"x\" : i16[2]\n%1 = convert %0 {dtype = f32} : f32[2]\n%2 = convert %1 {dtype = i8} : i8[2]\noutput \"y\" %2\n"},
    {"division by a power of two", "simplify",
     X_IN "%1 = constant {value = dense f32[] [4]} : f32[]\n%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n"
          "%3 = div %0, %2 : f32[2, 3]\noutput \"y\" %3\n",
     X_IN
     "%1 = constant {value = dense f32[] [0.25]} : f32[]\n%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n"
     "%3 = mul %0, %2 : f32[2, 3]\noutput \"y\" %3\n"},
    {"division by three stays", "simplify",
     X_IN "%1 = constant {value = dense f32[] [3]} : f32[]\n%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n"
          "%3 = div %0, %2 : f32[2, 3]\noutput \"y\" %3\n",
     X_IN "%1 = constant {value = dense f32[] [3]} : f32[]\n%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n"
          "%3 = div %0, %2 : f32[2, 3]\noutput \"y\" %3\n"},
    {"a square, and a cube that stays", "simplify",
     X_IN "%1 = constant {value = dense f32[] [2]} : f32[]\n%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n"
          "%3 = constant {value = dense f32[] [3]} : f32[]\n%4 = broadcast %3 {shape = [2, 3], axes = []} : f32[2, 3]\n"
          "%5 = pow %0, %2 : f32[2, 3]\n%6 = pow %0, %4 : f32[2, 3]\noutput \"a\" %5\noutput \"b\" %6\n",
     X_IN "%1 = constant {value = dense f32[] [3]} : f32[]\n%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n"
          "%3 = mul %0, %0 : f32[2, 3]\n%4 = pow %0, %2 : f32[2, 3]\noutput \"a\" %3\noutput \"b\" %4\n"},
    {"a maximum of maxima", "simplify",
     "input %0 \"x\" : f32[3, 4, 3]\n%1 = reduce %0 {axes = [2], kind = \"max\"} : f32[3, 4]\n"
     "%2 = reduce %1 {axes = [0], kind = \"max\"} : f32[4]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[3, 4, 3]\n%1 = reduce %0 {axes = [0, 2], kind = \"max\"} : f32[4]\noutput \"y\" %1\n"},
    {"two transposes", "simplify",
     X_IN "%1 = transpose %0 {permutation = [1, 0]} : f32[3, 2]\n%2 = exp %1 : f32[3, 2]\n"
          "%3 = transpose %1 {permutation = [1, 0]} : f32[2, 3]\noutput \"a\" %2\noutput \"b\" %3\n",
     X_IN
     "%1 = transpose %0 {permutation = [1, 0]} : f32[3, 2]\n%2 = exp %1 : f32[3, 2]\noutput \"a\" %2\noutput \"b\" %0\n"},
    {"reshapes, symbolic", "simplify",
     XB_IN
     "%1 = reshape %0 {shape = [B*4]} : f32[B*4]\n%2 = reshape %1 {shape = [B, 2, 2]} : f32[B, 2, 2]\noutput \"y\" %2\n",
     XB_IN "%1 = reshape %0 {shape = [B, 2, 2]} : f32[B, 2, 2]\noutput \"y\" %1\n"},
    {"transpose into a product", "simplify",
     "input %0 \"x\" : f32[4, 5]\ninput %1 \"w\" : f32[6, 5]\n%2 = transpose %1 {permutation = [1, 0]} : f32[5, 6]\n"
     "%3 = dot_general %0, %2 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], dtype = f32} : f32[4, 6]\n"
     "output \"y\" %3\n",
     "input %0 \"x\" : f32[4, 5]\ninput %1 \"w\" : f32[6, 5]\n"
     "%2 = dot_general %0, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[4, 6]\n"
     "output \"y\" %2\n"},
    {"a transpose that swaps free axes of a product stays", "simplify",
     "input %0 \"x\" : f32[3, 3, 4]\ninput %1 \"w\" : f32[4, 5]\n"
     "%2 = transpose %0 {permutation = [1, 0, 2]} : f32[3, 3, 4]\n"
     "%3 = dot_general %2, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [0], dtype = f32} : f32[3, 3, 5]\n"
     "output \"y\" %3\n",
     "input %0 \"x\" : f32[3, 3, 4]\ninput %1 \"w\" : f32[4, 5]\n"
     "%2 = transpose %0 {permutation = [1, 0, 2]} : f32[3, 3, 4]\n"
     "%3 = dot_general %2, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [0], dtype = f32} : f32[3, 3, 5]\n"
     "output \"y\" %3\n"},
    {"broadcast of unit axes", "simplify",
     "input %0 \"x\" : f32[3]\n%1 = reshape %0 {shape = [1, 3]} : f32[1, 3]\n"
     "%2 = broadcast %1 {shape = [2, 3], axes = [0, 1]} : f32[2, 3]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[3]\n%1 = broadcast %0 {shape = [2, 3], axes = [1]} : f32[2, 3]\noutput \"y\" %1\n"},
    {"slices of a concat, concat of slices", "simplify",
     X_IN "input %1 \"z\" : f32[2, 2]\n%2 = concat %0, %1 {axis = 1} : f32[2, 5]\n"
          "%3 = slice %2 {start = [0, 3], limit = [2, 5], stride = [1, 1]} : f32[2, 2]\n"
          "%4 = slice %2 {start = [0, 0], limit = [2, 2], stride = [1, 1]} : f32[2, 2]\n"
          "%5 = slice %2 {start = [0, 2], limit = [2, 3], stride = [1, 1]} : f32[2, 1]\n"
          "%6 = concat %4, %5 {axis = 1} : f32[2, 3]\noutput \"a\" %3\noutput \"b\" %6\n",
     X_IN "input %1 \"z\" : f32[2, 2]\noutput \"a\" %1\noutput \"b\" %0\n"},
    {"folding", "simplify",
     "%0 = constant {value = dense i64[3] [1, 2, 3]} : i64[3]\n%1 = reduce %0 {axes = [0], kind = \"sum\"} : i64[]\n"
     "%2 = constant {value = dense i64[] [4]} : i64[]\n%3 = mul %1, %2 : i64[]\noutput \"y\" %3\n",
     "%0 = constant {value = dense i64[] [24]} : i64[]\noutput \"y\" %0\n"},
    {"a broadcast constant folds beside a full one", "simplify",
     X_IN "%1 = constant {value = dense f32[3] [1, 2, 3]} : f32[3]\n%2 = constant {value = dense f32[] [1]} : f32[]\n"
          "%3 = broadcast %2 {shape = [3], axes = []} : f32[3]\n%4 = add %1, %3 : f32[3]\n"
          "%5 = broadcast %4 {shape = [2, 3], axes = [1]} : f32[2, 3]\n%6 = mul %0, %5 : f32[2, 3]\noutput \"y\" %6\n",
     X_IN "%1 = constant {value = dense f32[3] [2, 3, 4]} : f32[3]\n"
          "%2 = broadcast %1 {shape = [2, 3], axes = [1]} : f32[2, 3]\n%3 = mul %0, %2 : f32[2, 3]\noutput \"y\" %3\n"},
    /* (conv(x, w) + b) * s + c -> conv(x, w * s) + (b * s + c) */
    {"factors go into a convolution's weights", "simplify",
     "input %0 \"x\" : f32[1, 1, 5]\n%1 = constant {value = dense f32[2, 1, 2] [1, 2, 3, 4]} : f32[2, 1, 2]\n"
     "%2 = constant {value = dense f32[2] [5, 7]} : f32[2]\n%3 = constant {value = dense f32[2] [2, 4]} : f32[2]\n"
     "%4 = constant {value = dense f32[2] [3, 10]} : f32[2]\n"
     "%5 = convolution %0, %1 {stride = [1], low = [0], high = [0], dilation = [1], base_dilation = [1], groups = 1, dtype = f32} : f32[1, 2, 4]\n"
     "%6 = broadcast %2 {shape = [1, 2, 4], axes = [1]} : f32[1, 2, 4]\n%7 = broadcast %3 {shape = [1, 2, 4], axes = [1]} : f32[1, 2, 4]\n"
     "%8 = broadcast %4 {shape = [1, 2, 4], axes = [1]} : f32[1, 2, 4]\n%9 = add %5, %6 : f32[1, 2, 4]\n"
     "%10 = mul %9, %7 : f32[1, 2, 4]\n%11 = add %10, %8 : f32[1, 2, 4]\noutput \"y\" %11\n",
     "input %0 \"x\" : f32[1, 1, 5]\n%1 = constant {value = dense f32[2, 1, 2] [2, 4, 12, 16]} : f32[2, 1, 2]\n"
     "%2 = convolution %0, %1 {stride = [1], low = [0], high = [0], dilation = [1], base_dilation = [1], groups = 1, dtype = f32} : f32[1, 2, 4]\n"
     "%3 = constant {value = dense f32[2] [13, 38]} : f32[2]\n"
     "%4 = broadcast %3 {shape = [1, 2, 4], axes = [1]} : f32[1, 2, 4]\n%5 = add %2, %4 : f32[1, 2, 4]\noutput \"y\" %5\n"},
    {"factors go into a product's weights, not where it has another use", "simplify",
     "input %0 \"x\" : f32[4, 2]\n%1 = constant {value = dense f32[2, 2] [1, 2, 3, 4]} : f32[2, 2]\n"
     "%2 = constant {value = dense f32[2] [2, 3]} : f32[2]\n%3 = broadcast %2 {shape = [4, 2], axes = [1]} : f32[4, 2]\n"
     "%4 = dot_general %0, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], dtype = f32} : f32[4, 2]\n"
     "%5 = dot_general %0, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[4, 2]\n"
     "%6 = mul %4, %3 : f32[4, 2]\n%7 = mul %5, %3 : f32[4, 2]\noutput \"y\" %6\noutput \"z\" %7\noutput \"u\" %5\n",
     "input %0 \"x\" : f32[4, 2]\n%1 = constant {value = dense f32[2, 2] [1, 2, 3, 4]} : f32[2, 2]\n"
     "%2 = constant {value = dense f32[2] [2, 3]} : f32[2]\n%3 = broadcast %2 {shape = [4, 2], axes = [1]} : f32[4, 2]\n"
     "%4 = dot_general %0, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[4, 2]\n"
     "%5 = constant {value = dense f32[2, 2] [2, 6, 6, 12]} : f32[2, 2]\n"
     "%6 = dot_general %0, %5 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], dtype = f32} : f32[4, 2]\n"
     "%7 = mul %4, %3 : f32[4, 2]\noutput \"y\" %6\noutput \"z\" %7\noutput \"u\" %4\n"},
    {"a convolution's axis of one position", "simplify",
     "input %0 \"x\" : f32[1, 1, 5, 1]\ninput %1 \"w\" : f32[2, 1, 2, 1]\n"
     "%2 = convolution %0, %1 {stride = [1, 1], low = [1, 0], high = [0, 0], dilation = [1, 1], base_dilation = [1, 1], groups = 1, dtype = f32} : f32[1, 2, 5, 1]\n"
     "output \"y\" %2\n",
     "input %0 \"x\" : f32[1, 1, 5, 1]\ninput %1 \"w\" : f32[2, 1, 2, 1]\n"
     "%2 = reshape %0 {shape = [1, 1, 5]} : f32[1, 1, 5]\n%3 = reshape %1 {shape = [2, 1, 2]} : f32[2, 1, 2]\n"
     "%4 = convolution %2, %3 {stride = [1], low = [1], high = [0], dilation = [1], base_dilation = [1], groups = 1, dtype = f32} : f32[1, 2, 5]\n"
     "%5 = reshape %4 {shape = [1, 2, 5, 1]} : f32[1, 2, 5, 1]\noutput \"y\" %5\n"},
    {"extents that are numbers", "simplify",
     X_IN "%1 = dim {extent = [7]} : i64[]\n%2 = convert %1 {dtype = f32} : f32[]\noutput \"y\" %2\n",
     X_IN "%1 = constant {value = dense f32[] [7]} : f32[]\noutput \"y\" %1\n"},
    {"reduce of unit axes", "simplify",
     "input %0 \"x\" : f32[2, 1, 3]\n%1 = reduce %0 {axes = [1], kind = \"sum\"} : f32[2, 3]\noutput \"y\" %1\n",
     "input %0 \"x\" : f32[2, 1, 3]\n%1 = reshape %0 {shape = [2, 3]} : f32[2, 3]\noutput \"y\" %1\n"},
    {"known branch", "simplify",
     X_IN
     "%1 = constant {value = dense bool[] [0]} : bool[]\n"
     "%2 = cond %1 {\n%3 = exp %0 : f32[2, 3]\nyield %3\n} {\n%4 = log %0 : f32[2, 3]\nyield %4\n} : f32[2, 3]\noutput \"y\" %2\n",
     X_IN "%1 = log %0 : f32[2, 3]\noutput \"y\" %1\n"},
    {"what a branch computes is not known outside", "simplify",
     X_IN "input %1 \"p\" : bool[]\n%2 = cond %1 {\n%3 = exp %0 : f32[2, 3]\nyield %3\n} {\nyield %0\n} : f32[2, 3]\n"
          "%4 = exp %0 : f32[2, 3]\n%5 = add %2, %4 : f32[2, 3]\noutput \"y\" %5\n",
     X_IN "input %1 \"p\" : bool[]\n%2 = cond %1 {\n%3 = exp %0 : f32[2, 3]\nyield %3\n} {\nyield %0\n} : f32[2, 3]\n"
          "%4 = exp %0 : f32[2, 3]\n%5 = add %2, %4 : f32[2, 3]\noutput \"y\" %5\n"},
    {"states are not removed or merged", "simplify",
     "state @s : f32[2]\n%0 = state_read {name = \"s\"} : f32[2]\n%1 = exp %0 : f32[2]\nstate_update %1 {name = \"s\"}\n"
     "%2 = state_read {name = \"s\"} : f32[2]\n%3 = add %0, %2 : f32[2]\noutput \"y\" %3\n",
     "state @s : f32[2]\n%0 = state_read {name = \"s\"} : f32[2]\n%1 = exp %0 : f32[2]\nstate_update %1 {name = \"s\"}\n"
     "%2 = state_read {name = \"s\"} : f32[2]\n%3 = add %0, %2 : f32[2]\noutput \"y\" %3\n"},
    {"gelu, erf form", "simplify,raise,simplify",
     X_IN
     "%1 = constant {value = dense f32[] [1.4142135381698608]} : f32[]\n"
     "%2 = broadcast %1 {shape = [2, 3], axes = []} : f32[2, 3]\n%3 = div %0, %2 : f32[2, 3]\n%4 = erf %3 : f32[2, 3]\n"
     "%5 = constant {value = dense f32[] [1]} : f32[]\n%6 = broadcast %5 {shape = [2, 3], axes = []} : f32[2, 3]\n"
     "%7 = add %4, %6 : f32[2, 3]\n%8 = mul %0, %7 : f32[2, 3]\n%9 = constant {value = dense f32[] [0.5]} : f32[]\n"
     "%10 = broadcast %9 {shape = [2, 3], axes = []} : f32[2, 3]\n%11 = mul %8, %10 : f32[2, 3]\noutput \"y\" %11\n",
     X_IN "%1 = gelu %0 {approximate = \"none\"} : f32[2, 3]\noutput \"y\" %1\n"},
    {"not quite gelu", "raise",
     X_IN "input %1 \"z\" : f32[2, 3]\n%2 = logistic %0 : f32[2, 3]\n%3 = mul %1, %2 : f32[2, 3]\noutput \"y\" %3\n",
     X_IN "input %1 \"z\" : f32[2, 3]\n%2 = logistic %0 : f32[2, 3]\n%3 = mul %1, %2 : f32[2, 3]\noutput \"y\" %3\n"},
    /* square shapes: the mean is spread over the wrong axis, so this is no softmax */
    {"spread over the wrong axis", "raise",
     "input %0 \"x\" : f32[3, 3]\n%1 = reduce %0 {axes = [1], kind = \"max\"} : f32[3]\n"
     "%2 = broadcast %1 {shape = [3, 3], axes = [1]} : f32[3, 3]\n%3 = sub %0, %2 : f32[3, 3]\n%4 = exp %3 : f32[3, 3]\n"
     "%5 = reduce %4 {axes = [1], kind = \"sum\"} : f32[3]\n%6 = broadcast %5 {shape = [3, 3], axes = [0]} : f32[3, 3]\n"
     "%7 = div %4, %6 : f32[3, 3]\noutput \"y\" %7\n",
     "input %0 \"x\" : f32[3, 3]\n%1 = reduce %0 {axes = [1], kind = \"max\"} : f32[3]\n"
     "%2 = broadcast %1 {shape = [3, 3], axes = [1]} : f32[3, 3]\n%3 = sub %0, %2 : f32[3, 3]\n%4 = exp %3 : f32[3, 3]\n"
     "%5 = reduce %4 {axes = [1], kind = \"sum\"} : f32[3]\n%6 = broadcast %5 {shape = [3, 3], axes = [0]} : f32[3, 3]\n"
     "%7 = div %4, %6 : f32[3, 3]\noutput \"y\" %7\n"},
    {"softmax written out and found again", "decompose,simplify,raise,simplify",
     X_IN "%1 = softmax %0 {axis = 1} : f32[2, 3]\noutput \"y\" %1\n",
     X_IN "%1 = softmax %0 {axis = 1} : f32[2, 3]\noutput \"y\" %1\n"},
    {"gelu written out and found again", "decompose,simplify,raise,simplify",
     X_IN "%1 = gelu %0 {approximate = \"tanh\"} : f32[2, 3]\noutput \"y\" %1\n",
     X_IN "%1 = gelu %0 {approximate = \"tanh\"} : f32[2, 3]\noutput \"y\" %1\n"},
    {"layer_norm written out and found again", "decompose,simplify,raise,simplify",
     XB_IN "input %1 \"g\" : f32[4]\ninput %2 \"b\" : f32[4]\n"
           "%3 = layer_norm %0, %1, %2 {axes = [1], epsilon = 0.5} : f32[B, 4]\noutput \"y\" %3\n",
     XB_IN "input %1 \"g\" : f32[4]\ninput %2 \"b\" : f32[4]\n"
           "%3 = layer_norm %0, %1, %2 {axes = [1], epsilon = 0.5} : f32[B, 4]\noutput \"y\" %3\n"},
    {"rms_norm written out and found again", "decompose,simplify,raise,simplify",
     XB_IN "input %1 \"g\" : f32[4]\n%2 = rms_norm %0, %1 {axes = [1], epsilon = 0.5} : f32[B, 4]\noutput \"y\" %2\n",
     XB_IN "input %1 \"g\" : f32[4]\n%2 = rms_norm %0, %1 {axes = [1], epsilon = 0.5} : f32[B, 4]\noutput \"y\" %2\n"},
    /* ReduceMean with kept axes, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add: as exporters write it */
    {"layer_norm, exported form", "simplify,raise,simplify",
     X_IN
     "input %1 \"g\" : f32[3]\ninput %2 \"b\" : f32[3]\n%3 = constant {value = dense f32[] [3]} : f32[]\n"
     "%4 = broadcast %3 {shape = [2, 1], axes = []} : f32[2, 1]\n%5 = reduce %0 {axes = [1], kind = \"sum\"} : f32[2]\n"
     "%6 = reshape %5 {shape = [2, 1]} : f32[2, 1]\n%7 = div %6, %4 : f32[2, 1]\n"
     "%8 = broadcast %7 {shape = [2, 3], axes = [0, 1]} : f32[2, 3]\n%9 = sub %0, %8 : f32[2, 3]\n"
     "%10 = constant {value = dense f32[] [2]} : f32[]\n%11 = broadcast %10 {shape = [2, 3], axes = []} : f32[2, 3]\n"
     "%12 = pow %9, %11 : f32[2, 3]\n%13 = reduce %12 {axes = [1], kind = \"sum\"} : f32[2]\n"
     "%14 = reshape %13 {shape = [2, 1]} : f32[2, 1]\n%15 = div %14, %4 : f32[2, 1]\n"
     "%16 = constant {value = dense f32[] [0.5]} : f32[]\n%17 = broadcast %16 {shape = [2, 1], axes = []} : f32[2, 1]\n"
     "%18 = add %15, %17 : f32[2, 1]\n%19 = sqrt %18 : f32[2, 1]\n"
     "%20 = broadcast %19 {shape = [2, 3], axes = [0, 1]} : f32[2, 3]\n%21 = div %9, %20 : f32[2, 3]\n"
     "%22 = broadcast %1 {shape = [2, 3], axes = [1]} : f32[2, 3]\n%23 = mul %21, %22 : f32[2, 3]\n"
     "%24 = broadcast %2 {shape = [2, 3], axes = [1]} : f32[2, 3]\n%25 = add %23, %24 : f32[2, 3]\noutput \"y\" %25\n",
     X_IN "input %1 \"g\" : f32[3]\ninput %2 \"b\" : f32[3]\n"
          "%3 = layer_norm %0, %1, %2 {axes = [1], epsilon = 0.5} : f32[2, 3]\noutput \"y\" %3\n"},
    {"a convolution of one position is a product", "decompose",
     "input %0 \"x\" : f32[2, 3, 1]\ninput %1 \"w\" : f32[4, 3, 1]\n"
     "%2 = convolution %0, %1 {stride = [1], low = [0], high = [0], dilation = [1], base_dilation = [1], groups = 1, dtype = f32} : f32[2, 4, 1]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[2, 3, 1]\ninput %1 \"w\" : f32[4, 3, 1]\n"
     "%2 = reshape %0 {shape = [2, 3]} : f32[2, 3]\n%3 = reshape %1 {shape = [4, 3]} : f32[4, 3]\n"
     "%4 = dot_general %2, %3 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : f32[2, 4]\n"
     "%5 = reshape %4 {shape = [2, 4, 1]} : f32[2, 4, 1]\noutput \"y\" %5\n"},
    {"a padded convolution of one position stays", "decompose",
     "input %0 \"x\" : f32[2, 3, 1]\ninput %1 \"w\" : f32[4, 3, 3]\n"
     "%2 = convolution %0, %1 {stride = [1], low = [1], high = [1], dilation = [1], base_dilation = [1], groups = 1, dtype = f32} : f32[2, 4, 1]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[2, 3, 1]\ninput %1 \"w\" : f32[4, 3, 3]\n"
     "%2 = convolution %0, %1 {stride = [1], low = [1], high = [1], dilation = [1], base_dilation = [1], groups = 1, dtype = f32} : f32[2, 4, 1]\noutput \"y\" %2\n"},
    {"a transposed convolution without overlap", "decompose",
     "input %0 \"x\" : f32[2, 3, 5]\ninput %1 \"w\" : f32[4, 3, 2]\n"
     "%2 = convolution %0, %1 {stride = [1], low = [1], high = [1], dilation = [1], base_dilation = [2], groups = 1, dtype = f32} : f32[2, 4, 10]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[2, 3, 5]\ninput %1 \"w\" : f32[4, 3, 2]\n"
     "%2 = reverse %1 {axes = [2]} : f32[4, 3, 2]\n%3 = transpose %2 {permutation = [0, 2, 1]} : f32[4, 2, 3]\n"
     "%4 = reshape %3 {shape = [8, 3, 1]} : f32[8, 3, 1]\n"
     "%5 = convolution %0, %4 {stride = [1], low = [0], high = [0], dilation = [1], base_dilation = [1], groups = 1, dtype = f32} : f32[2, 8, 5]\n"
     "%6 = reshape %5 {shape = [2, 4, 2, 5]} : f32[2, 4, 2, 5]\n%7 = transpose %6 {permutation = [0, 1, 3, 2]} : f32[2, 4, 5, 2]\n"
     "%8 = reshape %7 {shape = [2, 4, 10]} : f32[2, 4, 10]\noutput \"y\" %8\n"},
    {"a transposed convolution with overlap stays", "decompose",
     "input %0 \"x\" : f32[2, 3, 5]\ninput %1 \"w\" : f32[4, 3, 3]\n"
     "%2 = convolution %0, %1 {stride = [1], low = [2], high = [2], dilation = [1], base_dilation = [2], groups = 1, dtype = f32} : f32[2, 4, 11]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[2, 3, 5]\ninput %1 \"w\" : f32[4, 3, 3]\n"
     "%2 = convolution %0, %1 {stride = [1], low = [2], high = [2], dilation = [1], base_dilation = [2], groups = 1, dtype = f32} : f32[2, 4, 11]\noutput \"y\" %2\n"},
    {"concats along one axis, and along two", "simplify",
     "input %0 \"x\" : f32[2, 2]\ninput %1 \"z\" : f32[2, 2]\n%2 = concat %0, %1 {axis = 0} : f32[4, 2]\n"
     "%3 = concat %2, %0 {axis = 0} : f32[6, 2]\n%4 = concat %1, %0 {axis = 0} : f32[4, 2]\n"
     "%5 = concat %4, %4 {axis = 1} : f32[4, 4]\noutput \"a\" %3\noutput \"b\" %5\n",
     "input %0 \"x\" : f32[2, 2]\n"
     "input %1 \"z\" : f32[2, 2]\n"
     "%2 = concat %0, %1, %0 {axis = 0} : f32[6, 2]\n"
     "%3 = concat %1, %0 {axis = 0} : f32[4, 2]\n"
     "%4 = concat %3, %3 {axis = 1} : f32[4, 4]\n"
     "output \"a\" %2\n"
     "output \"b\" %4\n"},
    {"a mean over one axis and a variance over the other are no norm", "simplify,raise,simplify",
     "input %0 \"x\" : f32[3, 3]\n%1 = constant {value = dense f32[] [3]} : f32[]\n"
     "%2 = broadcast %1 {shape = [3], axes = []} : f32[3]\n%3 = reduce %0 {axes = [0], kind = \"sum\"} : f32[3]\n"
     "%4 = div %3, %2 : f32[3]\n%5 = broadcast %4 {shape = [3, 3], axes = [1]} : f32[3, 3]\n"
     "%6 = sub %0, %5 : f32[3, 3]\n%7 = mul %6, %6 : f32[3, 3]\n%8 = reduce %7 {axes = [1], kind = \"sum\"} : f32[3]\n"
     "%9 = div %8, %2 : f32[3]\n%10 = constant {value = dense f32[] [0.5]} : f32[]\n"
     "%11 = broadcast %10 {shape = [3], axes = []} : f32[3]\n%12 = add %9, %11 : f32[3]\n%13 = sqrt %12 : f32[3]\n"
     "%14 = broadcast %13 {shape = [3, 3], axes = [0]} : f32[3, 3]\n%15 = div %6, %14 : f32[3, 3]\noutput \"y\" %15\n",
     "input %0 \"x\" : f32[3, 3]\n"
     "%1 = constant {value = dense f32[] [3]} : f32[]\n"
     "%2 = broadcast %1 {shape = [3], axes = []} : f32[3]\n"
     "%3 = reduce %0 {axes = [0], kind = \"sum\"} : f32[3]\n"
     "%4 = div %3, %2 : f32[3]\n"
     "%5 = broadcast %4 {shape = [3, 3], axes = [1]} : f32[3, 3]\n"
     "%6 = sub %0, %5 : f32[3, 3]\n"
     "%7 = rms_norm %6 {axes = [1], epsilon = 0.5} : f32[3, 3]\n"
     "output \"y\" %7\n"},
    {"reductions of a square over different axes are two groups", "fuse",
     "input %0 \"x\" : f32[3, 3]\n%1 = exp %0 : f32[3, 3]\n%2 = reduce %1 {axes = [0], kind = \"sum\"} : f32[3]\n"
     "%3 = broadcast %2 {shape = [3, 3], axes = [1]} : f32[3, 3]\n%4 = sub %1, %3 : f32[3, 3]\n"
     "%5 = reduce %4 {axes = [1], kind = \"sum\"} : f32[3]\noutput \"y\" %5\n",
     "input %0 \"x\" : f32[3, 3]\n"
     "%1 = fusion %0 {anchor = \"reduce\"} { (%2 \"x\" : f32[3, 3])\n"
     "%3 = exp %2 : f32[3, 3]\n"
     "%4 = reduce %3 {axes = [0], kind = \"sum\"} : f32[3]\n"
     "%5 = broadcast %4 {shape = [3, 3], axes = [1]} : f32[3, 3]\n"
     "%6 = sub %3, %5 : f32[3, 3]\n"
     "yield %6\n"
     "} : f32[3, 3]\n"
     "%7 = fusion %1 {anchor = \"reduce\"} { (%8 : f32[3, 3])\n"
     "%9 = reduce %8 {axes = [1], kind = \"sum\"} : f32[3]\n"
     "yield %9\n"
     "} : f32[3]\n"
     "output \"y\" %7\n"},
    {"results of two shapes are two groups", "fuse",
     X_IN "%1 = exp %0 : f32[2, 3]\n%2 = broadcast %1 {shape = [4, 2, 3], axes = [1, 2]} : f32[4, 2, 3]\n"
          "%3 = neg %2 : f32[4, 2, 3]\noutput \"a\" %1\noutput \"b\" %3\n",
     "input %0 \"x\" : f32[2, 3]\n"
     "%1 = fusion %0 {anchor = \"pointwise\"} { (%2 \"x\" : f32[2, 3])\n"
     "%3 = exp %2 : f32[2, 3]\n"
     "yield %3\n"
     "} : f32[2, 3]\n"
     "%4 = fusion %1 {anchor = \"pointwise\"} { (%5 : f32[2, 3])\n"
     "%6 = broadcast %5 {shape = [4, 2, 3], axes = [1, 2]} : f32[4, 2, 3]\n"
     "%7 = neg %6 : f32[4, 2, 3]\n"
     "yield %7\n"
     "} : f32[4, 2, 3]\n"
     "output \"a\" %1\n"
     "output \"b\" %4\n"},
    {"a transpose of equal extents stays", "simplify",
     "input %0 \"x\" : f32[2, 3, 3]\n%1 = transpose %0 {permutation = [0, 2, 1]} : f32[2, 3, 3]\noutput \"y\" %1\n",
     "input %0 \"x\" : f32[2, 3, 3]\n"
     "%1 = transpose %0 {permutation = [0, 2, 1]} : f32[2, 3, 3]\n"
     "output \"y\" %1\n"},
    {"three turns of a cube are one", "simplify",
     "input %0 \"x\" : f32[3, 3, 3]\n%1 = transpose %0 {permutation = [1, 2, 0]} : f32[3, 3, 3]\n"
     "%2 = transpose %1 {permutation = [0, 2, 1]} : f32[3, 3, 3]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[3, 3, 3]\n"
     "%1 = transpose %0 {permutation = [1, 0, 2]} : f32[3, 3, 3]\n"
     "output \"y\" %1\n"},
    {"a shift by padding stays", "simplify",
     "input %0 \"x\" : f32[4]\n%1 = constant {value = dense f32[] [0]} : f32[]\n"
     "%2 = pad %0, %1 {low = [1], high = [-1], interior = [0]} : f32[4]\noutput \"y\" %2\n",
     "input %0 \"x\" : f32[4]\n"
     "%1 = constant {value = dense f32[] [0]} : f32[]\n"
     "%2 = pad %0, %1 {low = [1], high = [-1], interior = [0]} : f32[4]\n"
     "output \"y\" %2\n"},
    {"counts along two axes are two values", "simplify",
     "input %0 \"x\" : i32[3, 3]\n%1 = cumulative %0 {axis = 0, kind = \"sum\", exclusive = 0, reverse = 0} : i32[3, 3]\n"
     "%2 = cumulative %0 {axis = 1, kind = \"sum\", exclusive = 0, reverse = 0} : i32[3, 3]\n"
     "%3 = cumulative %0 {axis = 1, kind = \"sum\", exclusive = 0, reverse = 1} : i32[3, 3]\n"
     "output \"a\" %1\noutput \"b\" %2\noutput \"c\" %3\n",
     "input %0 \"x\" : i32[3, 3]\n"
     "%1 = cumulative %0 {axis = 0, kind = \"sum\", exclusive = 0, reverse = 0} : i32[3, 3]\n"
     "%2 = cumulative %0 {axis = 1, kind = \"sum\", exclusive = 0, reverse = 0} : i32[3, 3]\n"
     "%3 = cumulative %0 {axis = 1, kind = \"sum\", exclusive = 0, reverse = 1} : i32[3, 3]\n"
     "output \"a\" %1\n"
     "output \"b\" %2\n"
     "output \"c\" %3\n"},
    {"a broadcast of a row: the kept axis is the row's", "simplify",
     "input %0 \"x\" : f32[1, 3]\n%1 = broadcast %0 {shape = [3, 2, 3], axes = [0, 2]} : f32[3, 2, 3]\noutput \"y\" %1\n",
     "input %0 \"x\" : f32[1, 3]\n"
     "%1 = reshape %0 {shape = [3]} : f32[3]\n"
     "%2 = broadcast %1 {shape = [3, 2, 3], axes = [2]} : f32[3, 2, 3]\n"
     "output \"y\" %2\n"},
    {"a sum spread over the wrong axis of a square is another group", "fuse",
     "input %0 \"x\" : f32[3, 3]\n%1 = reduce %0 {axes = [1], kind = \"sum\"} : f32[3]\n"
     "%2 = broadcast %1 {shape = [3, 3], axes = [1]} : f32[3, 3]\n%3 = sub %0, %2 : f32[3, 3]\noutput \"y\" %3\n",
     "input %0 \"x\" : f32[3, 3]\n"
     "%1 = fusion %0 {anchor = \"reduce\"} { (%2 \"x\" : f32[3, 3])\n"
     "%3 = reduce %2 {axes = [1], kind = \"sum\"} : f32[3]\n"
     "yield %3\n"
     "} : f32[3]\n"
     "%4 = fusion %0, %1 {anchor = \"pointwise\"} { (%5 \"x\" : f32[3, 3], %6 : f32[3])\n"
     "%7 = broadcast %6 {shape = [3, 3], axes = [1]} : f32[3, 3]\n"
     "%8 = sub %5, %7 : f32[3, 3]\n"
     "yield %8\n"
     "} : f32[3, 3]\n"
     "output \"y\" %4\n"},
    {"a result that the rows of a reduction cannot store", "fuse",
     "input %0 \"x\" : f32[2, 3]\n%1 = neg %0 : f32[2, 3]\n"
     "%2 = broadcast %1 {shape = [4, 2, 3], axes = [1, 2]} : f32[4, 2, 3]\n"
     "%3 = reduce %2 {axes = [2], kind = \"sum\"} : f32[4, 2]\noutput \"a\" %1\noutput \"b\" %3\n",
     "input %0 \"x\" : f32[2, 3]\n"
     "%1 = fusion %0 {anchor = \"pointwise\"} { (%2 \"x\" : f32[2, 3])\n"
     "%3 = neg %2 : f32[2, 3]\n"
     "yield %3\n"
     "} : f32[2, 3]\n"
     "%4 = fusion %1 {anchor = \"reduce\"} { (%5 : f32[2, 3])\n"
     "%6 = broadcast %5 {shape = [4, 2, 3], axes = [1, 2]} : f32[4, 2, 3]\n"
     "%7 = reduce %6 {axes = [2], kind = \"sum\"} : f32[4, 2]\n"
     "yield %7\n"
     "} : f32[4, 2]\n"
     "output \"a\" %1\n"
     "output \"b\" %4\n"},
    {"a reduction of what a reduction gives is another group", "fuse",
     "input %0 \"x\" : f32[4, 4]\n%1 = reduce %0 {axes = [0], kind = \"sum\"} : f32[4]\n%2 = exp %1 : f32[4]\n"
     "%3 = reduce %2 {axes = [0], kind = \"sum\"} : f32[]\noutput \"y\" %3\n",
     "input %0 \"x\" : f32[4, 4]\n"
     "%1 = fusion %0 {anchor = \"reduce\"} { (%2 \"x\" : f32[4, 4])\n"
     "%3 = reduce %2 {axes = [0], kind = \"sum\"} : f32[4]\n"
     "%4 = exp %3 : f32[4]\n"
     "yield %4\n"
     "} : f32[4]\n"
     "%5 = fusion %1 {anchor = \"reduce\"} { (%6 : f32[4])\n"
     "%7 = reduce %6 {axes = [0], kind = \"sum\"} : f32[]\n"
     "yield %7\n"
     "} : f32[]\n"
     "output \"y\" %5\n"},
    {"the maximum along one axis and the sum along the other are no softmax", "raise",
     "input %0 \"x\" : f32[3, 3]\n%1 = reduce %0 {axes = [0], kind = \"max\"} : f32[3]\n"
     "%2 = broadcast %1 {shape = [3, 3], axes = [1]} : f32[3, 3]\n%3 = sub %0, %2 : f32[3, 3]\n%4 = exp %3 : f32[3, 3]\n"
     "%5 = reduce %4 {axes = [1], kind = \"sum\"} : f32[3]\n%6 = broadcast %5 {shape = [3, 3], axes = [0]} : f32[3, 3]\n"
     "%7 = div %4, %6 : f32[3, 3]\noutput \"y\" %7\n",
     "input %0 \"x\" : f32[3, 3]\n"
     "%1 = reduce %0 {axes = [0], kind = \"max\"} : f32[3]\n"
     "%2 = broadcast %1 {shape = [3, 3], axes = [1]} : f32[3, 3]\n"
     "%3 = sub %0, %2 : f32[3, 3]\n"
     "%4 = exp %3 : f32[3, 3]\n"
     "%5 = reduce %4 {axes = [1], kind = \"sum\"} : f32[3]\n"
     "%6 = broadcast %5 {shape = [3, 3], axes = [0]} : f32[3, 3]\n"
     "%7 = div %4, %6 : f32[3, 3]\n"
     "output \"y\" %7\n"},
    {"a reduction of kept rows is another group", "fuse",
     "input %0 \"x\" : f32[4, 4]\n%1 = reduce %0 {axes = [1], kind = \"sum\"} : f32[4]\n"
     "%2 = reshape %1 {shape = [4, 1]} : f32[4, 1]\n%3 = exp %2 : f32[4, 1]\n"
     "%4 = reduce %3 {axes = [1], kind = \"sum\"} : f32[4]\noutput \"y\" %4\n",
     "input %0 \"x\" : f32[4, 4]\n"
     "%1 = fusion %0 {anchor = \"reduce\"} { (%2 \"x\" : f32[4, 4])\n"
     "%3 = reduce %2 {axes = [1], kind = \"sum\"} : f32[4]\n"
     "%4 = reshape %3 {shape = [4, 1]} : f32[4, 1]\n"
     "%5 = exp %4 : f32[4, 1]\n"
     "yield %5\n"
     "} : f32[4, 1]\n"
     "%6 = fusion %1 {anchor = \"reduce\"} { (%7 : f32[4, 1])\n"
     "%8 = reduce %7 {axes = [1], kind = \"sum\"} : f32[4]\n"
     "yield %8\n"
     "} : f32[4]\n"
     "output \"y\" %6\n"},
};

static weft_context *context;
static void setup(void) { ck_assert_ptr_null(weft_context_create(NULL, &context)); }
static void teardown(void) { weft_context_release(context); }

static void expect_ok(weft_status status, const char *what) {
    char text[2000] = "";
    if (status) weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s: %s", what, text);
}

/* The canonical text of a body. */
static char *run(const char *body, const char *pipeline, const char *name) {
    char text[8000], *printed;
    snprintf(text, sizeof text, "graph @t {\n%s}\n", body);
    weft_graph *graph;
    expect_ok(weft_graph_parse(context, text, strlen(text), &graph), name);
    weft_pass_context pass = {.graph = graph, .options = ""};
    expect_ok(weft_pipeline_run(&pass, pipeline), name);
    expect_ok(weft_graph_verify(graph), name);
    expect_ok(weft_graph_print(graph, &printed), name);
    weft_graph_release(graph);
    return printed;
}

START_TEST(test_golden) {
    const golden *g = &goldens[_i];
    char *got = run(g->before, g->pipeline, g->name), *wanted = run(g->after, "", g->name);
    ck_assert_msg(strcmp(got, wanted) == 0, "%s: got\n%s\nwanted\n%s", g->name, got, wanted);
    weft_string_release(context, got);
    weft_string_release(context, wanted);
}
END_TEST

START_TEST(test_pipeline_strings) {
    weft_graph *graph;
    expect_ok(weft_graph_create(context, "t", &graph), "create");
    weft_pass_context pass = {.graph = graph, .options = ""};
    expect_ok(weft_pipeline_run(&pass, "simplify{a=1} , raise,"), "options");
    static const char *const wrong[] = {"simplfy", "simplify{", "simplify raise"};
    for (int i = 0; i < 3; i++) {
        weft_status status = weft_pipeline_run(&pass, wrong[i]);
        ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
        weft_status_release(status);
    }
    weft_graph_release(graph);
}
END_TEST

Suite *golden_suite(void) {
    Suite *suite = suite_create("golden");
    TCase *tests = tcase_create("golden");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, test_golden, 0, (int)(sizeof goldens / sizeof *goldens));
    tcase_add_test(tests, test_pipeline_strings);
    suite_add_tcase(suite, tests);
    return suite;
}
