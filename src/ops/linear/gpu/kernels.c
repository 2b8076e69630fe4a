/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kernels for GPUs. */
#include "ops/linear/gpu/blocks.h"
#include "ops/linear/gpu/gpu.h"

/* clang-format off */
static const rf_kernel matmul[] = {
    { "thin", rf_matmul_skinny_score, rf_matmul_skinny_plan, .finishes = true, .narrow = rf_matmul_skinny_narrow },
    { "block_s", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_S, RF_ROLE_MATMUL }, .finishes = true, .narrow = rf_matmul_blocks_narrow },
    { "block_deep", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_DEEP, RF_ROLE_MATMUL }, .finishes = true, .narrow = rf_matmul_blocks_narrow },
    { "block_m", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_M, RF_ROLE_MATMUL }, .finishes = true, .narrow = rf_matmul_blocks_narrow },
    { "block_t", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_T, RF_ROLE_MATMUL }, .finishes = true, .narrow = rf_matmul_blocks_narrow },
    { "block_l", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_L, RF_ROLE_MATMUL }, .finishes = true, .narrow = rf_matmul_blocks_narrow },
    { "block_xl", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_XL, RF_ROLE_MATMUL }, .finishes = true, .narrow = rf_matmul_blocks_narrow },
    { "coop_s", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_S, RF_ROLE_MATMUL }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_m", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_M, RF_ROLE_MATMUL }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_l", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_L, RF_ROLE_MATMUL }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_xl", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_XL, RF_ROLE_MATMUL }, .narrow = rf_always_narrow, .cooperative = true },
};
const rf_kernel_list rf_matmul_gpu = RF_KERNEL_LIST(matmul);

static const rf_kernel matmul_quantized[] = {
    { "block_s", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_S, RF_ROLE_QUANTIZED }, .narrow = rf_matmul_blocks_narrow },
    { "block_m", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_M, RF_ROLE_QUANTIZED }, .narrow = rf_matmul_blocks_narrow },
    { "block_l", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_L, RF_ROLE_QUANTIZED }, .narrow = rf_matmul_blocks_narrow },
    { "block_xl", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_XL, RF_ROLE_QUANTIZED }, .narrow = rf_matmul_blocks_narrow },
    { "coop_s", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_S, RF_ROLE_QUANTIZED }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_m", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_M, RF_ROLE_QUANTIZED }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_l", rf_matmul_blocks_score, rf_matmul_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_L, RF_ROLE_QUANTIZED }, .narrow = rf_always_narrow, .cooperative = true },
};
const rf_kernel_list rf_matmul_quantized_gpu = RF_KERNEL_LIST(matmul_quantized);

static const rf_kernel conv2d[] = {
    { "block_s", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_S, RF_ROLE_FORWARD }, .finishes = true, .narrow = rf_conv2d_blocks_narrow },
    { "block_deep", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_DEEP, RF_ROLE_FORWARD }, .finishes = true, .narrow = rf_conv2d_blocks_narrow },
    { "block_m", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_M, RF_ROLE_FORWARD }, .finishes = true, .narrow = rf_conv2d_blocks_narrow },
    { "block_t", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_T, RF_ROLE_FORWARD }, .finishes = true, .narrow = rf_conv2d_blocks_narrow },
    { "block_l", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_L, RF_ROLE_FORWARD }, .finishes = true, .narrow = rf_conv2d_blocks_narrow },
    { "block_xl", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_XL, RF_ROLE_FORWARD }, .finishes = true, .narrow = rf_conv2d_blocks_narrow },
    { "coop_s", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_S, RF_ROLE_FORWARD }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_m", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_M, RF_ROLE_FORWARD }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_l", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_L, RF_ROLE_FORWARD }, .narrow = rf_always_narrow, .cooperative = true },
};
const rf_kernel_list rf_conv2d_gpu = RF_KERNEL_LIST(conv2d);

static const rf_kernel conv2d_data[] = {
    { "block_s", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_S, RF_ROLE_DATA }, .narrow = rf_conv2d_blocks_narrow },
    { "block_deep", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_DEEP, RF_ROLE_DATA }, .narrow = rf_conv2d_blocks_narrow },
    { "block_m", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_M, RF_ROLE_DATA }, .narrow = rf_conv2d_blocks_narrow },
    { "block_t", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_T, RF_ROLE_DATA }, .narrow = rf_conv2d_blocks_narrow },
    { "block_l", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_L, RF_ROLE_DATA }, .narrow = rf_conv2d_blocks_narrow },
    { "block_xl", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_XL, RF_ROLE_DATA }, .narrow = rf_conv2d_blocks_narrow },
    { "coop_s", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_S, RF_ROLE_DATA }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_m", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_M, RF_ROLE_DATA }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_l", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_L, RF_ROLE_DATA }, .narrow = rf_always_narrow, .cooperative = true },
};
const rf_kernel_list rf_conv2d_data_gpu = RF_KERNEL_LIST(conv2d_data);

static const rf_kernel conv2d_filter[] = {
    { "block_s", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_S, RF_ROLE_FILTER }, .narrow = rf_conv2d_blocks_narrow },
    { "block_deep", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_DEEP, RF_ROLE_FILTER }, .narrow = rf_conv2d_blocks_narrow },
    { "block_m", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_M, RF_ROLE_FILTER }, .narrow = rf_conv2d_blocks_narrow },
    { "block_t", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_T, RF_ROLE_FILTER }, .narrow = rf_conv2d_blocks_narrow },
    { "block_l", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_L, RF_ROLE_FILTER }, .narrow = rf_conv2d_blocks_narrow },
    { "block_xl", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_XL, RF_ROLE_FILTER }, .narrow = rf_conv2d_blocks_narrow },
    { "coop_s", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_S, RF_ROLE_FILTER }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_m", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_M, RF_ROLE_FILTER }, .narrow = rf_always_narrow, .cooperative = true },
    { "coop_l", rf_conv2d_blocks_score, rf_conv2d_blocks_plan,
      &(const rf_block_kernel){ RF_BLOCK_COOP_L, RF_ROLE_FILTER }, .narrow = rf_always_narrow, .cooperative = true },
};
const rf_kernel_list rf_conv2d_filter_gpu = RF_KERNEL_LIST(conv2d_filter);

static const rf_kernel rnn[] = { { "held", rf_rnn_register_score, rf_rnn_register_plan } };
static const rf_kernel rnn_grad[] = {
    { "held", rf_rnn_register_score, rf_rnn_register_plan, &(const bool){ true } },
};
const rf_kernel_list rf_rnn_gpu = RF_KERNEL_LIST(rnn), rf_rnn_grad_gpu = RF_KERNEL_LIST(rnn_grad);

static const rf_kernel attention[] = { { "blocks", rf_attention_blocks_score, rf_attention_blocks_plan } };
static const rf_kernel attention_grad[] = {
    { "blocks", rf_attention_blocks_score, rf_attention_grad_blocks_plan, &(const bool){ true } },
};
const rf_kernel_list rf_attention_gpu = RF_KERNEL_LIST(attention),
                     rf_attention_grad_gpu = RF_KERNEL_LIST(attention_grad);
/* clang-format on */
