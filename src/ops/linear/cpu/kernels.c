/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kernels for software drivers. */
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/common/conv2d.h"
#include "ops/linear/common/matmul.h"
#include "ops/linear/cpu/cpu.h"
#include "ops/linear/cpu/lanes.h"
#include "rf_shaders.h"

static const rf_piece_form matmul_lanes = { rf_matmul_lanes_seconds, rf_matmul_lanes_plan };
static const rf_piece_form lanes = { rf_conv2d_lanes_seconds, rf_conv2d_lanes_plan };
static const rf_piece_form winograd = { rf_winograd_seconds, rf_winograd_plan };
static const rf_piece_form winograd_4 = { rf_winograd_4_seconds, rf_winograd_4_plan };
static const rf_piece_form resident = { rf_resident_seconds, rf_resident_plan };
static const rf_piece_form winograd_grad = { rf_winograd_grad_seconds, rf_winograd_grad_plan };
static const rf_piece_form resident_filter = { rf_resident_filter_seconds, rf_resident_filter_plan };

/* clang-format off */
static const rf_kernel matmul[] = {
    { "lanes8_texel", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &matmul_lanes, RF_ROLE_MATMUL, &rf_lanes8_texel } },
    { "lanes4_texel", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &matmul_lanes, RF_ROLE_MATMUL, &rf_lanes4_texel } },
    { "lanes4_storage", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &matmul_lanes, RF_ROLE_MATMUL, &rf_lanes4_storage } },
    { "lanes4_quad", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &matmul_lanes, RF_ROLE_MATMUL, &rf_lanes4_quad } },
};
const rf_kernel_list rf_matmul_cpu = RF_KERNEL_LIST(matmul);

static const rf_kernel conv2d[] = {
    { "few_32", rf_small_channels_lanes_score, rf_small_channels_plan,
      &(const rf_small_channels){ &rf_shader_conv2d_few_lanes_32, 4 },
      .finishes = true, .narrow = rf_small_channels_narrow },
    { "lanes8_texel", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FORWARD, &rf_lanes8_texel } },
    { "lanes4_texel", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FORWARD, &rf_lanes4_texel } },
    { "lanes4_storage", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FORWARD, &rf_lanes4_storage } },
    { "lanes4_storage_scalar", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FORWARD, &rf_lanes4_storage, true } },
    { "lanes8_texel_winograd", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 2,
      .data = &(const rf_piece_kernel){ &winograd, RF_ROLE_FORWARD, &rf_lanes8_texel } },
    { "lanes4_texel_winograd", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 2,
      .data = &(const rf_piece_kernel){ &winograd, RF_ROLE_FORWARD, &rf_lanes4_texel } },
    { "lanes8_texel_winograd_4", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 4,
      .data = &(const rf_piece_kernel){ &winograd_4, RF_ROLE_FORWARD, &rf_lanes8_texel } },
    { "lanes4_texel_winograd_4", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 4,
      .data = &(const rf_piece_kernel){ &winograd_4, RF_ROLE_FORWARD, &rf_lanes4_texel } },
    { "lanes4_quad_held", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &resident, RF_ROLE_FORWARD, &rf_lanes4_quad } },
};
const rf_kernel_list rf_conv2d_cpu = RF_KERNEL_LIST(conv2d);

static const rf_kernel conv2d_data[] = {
    { "lanes8_texel", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_DATA, &rf_lanes8_texel } },
    { "lanes4_texel", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_DATA, &rf_lanes4_texel } },
    { "lanes4_storage", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_DATA, &rf_lanes4_storage } },
    { "lanes8_texel_winograd", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 2,
      .data = &(const rf_piece_kernel){ &winograd, RF_ROLE_DATA, &rf_lanes8_texel } },
    { "lanes4_texel_winograd", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 2,
      .data = &(const rf_piece_kernel){ &winograd, RF_ROLE_DATA, &rf_lanes4_texel } },
    { "lanes8_texel_winograd_4", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 4,
      .data = &(const rf_piece_kernel){ &winograd_4, RF_ROLE_DATA, &rf_lanes8_texel } },
    { "lanes4_texel_winograd_4", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 4,
      .data = &(const rf_piece_kernel){ &winograd_4, RF_ROLE_DATA, &rf_lanes4_texel } },
    { "lanes4_quad_held", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &resident, RF_ROLE_DATA, &rf_lanes4_quad } },
};
const rf_kernel_list rf_conv2d_data_cpu = RF_KERNEL_LIST(conv2d_data);

static const rf_kernel conv2d_filter[] = {
    { "few_32", rf_small_channels_filter_score, rf_small_channels_filter_plan,
      &(const rf_small_channels){ &rf_shader_conv2d_few_filter_lanes_32, 4 } },
    { "lanes8_texel_winograd_4", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 4,
      .data = &(const rf_piece_kernel){ &winograd_grad, RF_ROLE_FILTER, &rf_lanes8_texel } },
    { "lanes4_texel_winograd_4", rf_pieces_score, rf_pieces_plan, .cuts_up = true, .block = 4,
      .data = &(const rf_piece_kernel){ &winograd_grad, RF_ROLE_FILTER, &rf_lanes4_texel } },
    { "lanes4_quad_held", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &resident_filter, RF_ROLE_FILTER, &rf_lanes4_quad } },
    { "lanes8_texel", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FILTER, &rf_lanes8_texel } },
    { "lanes4_texel", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FILTER, &rf_lanes4_texel } },
    { "lanes4_storage", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FILTER, &rf_lanes4_storage } },
    { "lanes4_quad", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FILTER, &rf_lanes4_quad } },
    { "lanes4_storage_scalar", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FILTER, &rf_lanes4_storage, true } },
    { "lanes4_quad_scalar", rf_pieces_score, rf_pieces_plan, .cuts_up = true,
      .data = &(const rf_piece_kernel){ &lanes, RF_ROLE_FILTER, &rf_lanes4_quad, true } },
};
const rf_kernel_list rf_conv2d_filter_cpu = RF_KERNEL_LIST(conv2d_filter);

static const rf_kernel conv2d_pool_filter[] = {
    { "few_32", rf_small_channels_filter_score, rf_small_channels_filter_plan,
      &(const rf_small_channels){ &rf_shader_conv2d_few_filter_lanes_32, 4, true } },
};
const rf_kernel_list rf_conv2d_pool_filter_cpu = RF_KERNEL_LIST(conv2d_pool_filter);

static const rf_kernel rnn[] = { { "lanes8", rf_rnn_lanes_score, rf_rnn_lanes_plan } };
static const rf_kernel rnn_grad[] = {
    { "lanes8", rf_rnn_lanes_score, rf_rnn_grad_lanes_plan, &(const bool){ true } },
};
const rf_kernel_list rf_rnn_cpu = RF_KERNEL_LIST(rnn), rf_rnn_grad_cpu = RF_KERNEL_LIST(rnn_grad);

static const rf_kernel attention[] = { { "lanes8", rf_attention_lanes_score, rf_attention_lanes_plan } };
static const rf_kernel attention_grad[] = {
    { "lanes8", rf_attention_lanes_score, rf_attention_grad_lanes_plan, &(const bool){ true } },
};
const rf_kernel_list rf_attention_cpu = RF_KERNEL_LIST(attention),
                     rf_attention_grad_cpu = RF_KERNEL_LIST(attention_grad);
/* clang-format on */
