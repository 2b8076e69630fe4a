/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of kernels for software. */
#include "ops/reduction/cpu/kernels.h"
#include "ops/reduction/common/batch.h"
#include "ops/reduction/common/layer_norm.h"
#include "ops/reduction/common/loss.h"
#include "ops/reduction/common/pool.h"
#include "ops/reduction/common/reduce.h"
#include "ops/reduction/common/scan.h"
#include "ops/reduction/common/softmax.h"
#include "ops/reduction/cpu/cpu.h"

static const rf_kernel reduce[] = {
    { "columns_texel", rf_reduce_columns_score, rf_reduce_plan, &rf_reduce_columns_texel },
    { "rows_texel", rf_reduce_rows_score, rf_reduce_plan, &rf_reduce_rows_texel },
};
const rf_kernel_list rf_reduce_cpu = RF_KERNEL_LIST(reduce);

static const rf_batch_form batch_texels = {
    .width = 4,
    .score = RF_SCORE_DRIVER,
    .sums = &rf_shader_batch_sums_texel,
    .products = &rf_shader_batch_products_texel,
    .texels = true,
    .joined = { [RF_BATCH_MOMENTS] = { &rf_shader_batch_joined_moments8, &rf_shader_batch_joined_moments16 },
                [RF_BATCH_AVERAGES] = { &rf_shader_batch_joined_averages8, &rf_shader_batch_joined_averages16 },
                [RF_BATCH_SUMS] = { &rf_shader_batch_joined_products8, &rf_shader_batch_joined_products16 } }
};
static const rf_kernel batch[] = { { "texel", rf_batch_score, rf_batch_plan, &batch_texels } };
const rf_kernel_list rf_batch_cpu = RF_KERNEL_LIST(batch);

/* ---- rows ---- */

static const rf_kernel softmax[] = {
    { RF_ROW_FORM("held", rf_softmax_job, RF_ROW_HELD, .texels = true, .shaders = RF_SOFTMAX_SHADERS(_held8),
                  .wide = RF_SOFTMAX_SHADERS(_held16)) },
    { RF_ROW_FORM("row_texel", rf_softmax_job, .fours = true, .texels = true, .shaders = RF_SOFTMAX_SHADERS(_texel)) },
};
const rf_kernel_list rf_softmax_cpu = RF_KERNEL_LIST(softmax);

static const rf_kernel layer_norm[] = {
    { RF_ROW_FORM("held", rf_layer_norm_job, RF_ROW_HELD, .fours = true, .texels = true,
                  .shaders = RF_LAYER_NORM_SHADERS(_held8), .wide = RF_LAYER_NORM_SHADERS(_held16)) },
    { RF_ROW_FORM("row_texel", rf_layer_norm_job, .fours = true, .texels = true,
                  .shaders = RF_LAYER_NORM_SHADERS(_texel8), .wide = RF_LAYER_NORM_SHADERS(_texel16)) },
};
const rf_kernel_list rf_layer_norm_cpu = RF_KERNEL_LIST(layer_norm);

/* Losses, gradients, both. */
#define LOSS_SHADERS(end)                                                                                              \
    (const rf_shader *const[])                                                                                         \
    {                                                                                                                  \
        &rf_shader_sparse_crossentropy##end, &rf_shader_sparse_crossentropy_grad##end,                                 \
            &rf_shader_sparse_crossentropy_both##end                                                                   \
    }
static const rf_kernel loss[] = {
    { RF_ROW_FORM("held", rf_loss_job, RF_ROW_HELD, .shaders = LOSS_SHADERS(_held8), .wide = LOSS_SHADERS(_held16)) },
};
const rf_kernel_list rf_loss_cpu = RF_KERNEL_LIST(loss);

/* ---- scans ---- */

#define SCAN_FOURS(name)                                                                                               \
    {                                                                                                                  \
        .row = { &rf_shader_##name##_fours8, &rf_shader_##name##_fours16 },                                            \
        .totals = { &rf_shader_##name##_totals_fours8, &rf_shader_##name##_totals_fours16 },                           \
        .blocked = { &rf_shader_##name##_blocked_fours8, &rf_shader_##name##_blocked_fours16 },                        \
        .group = { &rf_shader_##name##_group_fours8, &rf_shader_##name##_group_fours16 },                              \
    }
static const rf_scan_fours cumsum_fours = SCAN_FOURS(cumsum), cumprod_fours = SCAN_FOURS(cumprod);
static const rf_scan_kernel cumsum_texels = { rf_cumsum_scan, &cumsum_fours },
                            cumprod_texels = { rf_cumprod_scan, &cumprod_fours };

static const rf_kernel cumsum[] = {
    { "row_texel", rf_scan_row_score, rf_scan_row_plan, &cumsum_texels },
    { "blocked_texel", rf_scan_blocked_score, rf_scan_blocked_plan, &cumsum_texels },
    { "group_texel", rf_scan_group_score, rf_scan_group_plan, &cumsum_texels },
};
const rf_kernel_list rf_cumsum_cpu = RF_KERNEL_LIST(cumsum);

static const rf_kernel cumprod[] = {
    { "row_texel", rf_scan_row_score, rf_scan_row_plan, &cumprod_texels },
    { "blocked_texel", rf_scan_blocked_score, rf_scan_blocked_plan, &cumprod_texels },
    { "group_texel", rf_scan_group_score, rf_scan_group_plan, &cumprod_texels },
};
const rf_kernel_list rf_cumprod_cpu = RF_KERNEL_LIST(cumprod);

/* ---- pooling ---- */

#define FORM(text, ...)                                                                                                \
    RF_ROW_KERNEL(text, rf_pool_job, &(const rf_pool_form){ __VA_ARGS__, .texel = true }),                             \
        .narrow = rf_pool_texels_narrow
#define WALK(text, name, ...)                                                                                          \
    RF_ROW_KERNEL(text, rf_pool_walk_job,                                                                              \
                  &(const rf_pool_walk_form){                                                                          \
                      { &rf_shader_pool_walk_##name##_texel8, &rf_shader_pool_walk_##name##_texel16 }, __VA_ARGS__ }), \
        .narrow = rf_pool_texels_narrow

static const rf_kernel max_pool[] = {
    { FORM("texel", &rf_shader_pool_max_texel, WALK_WINDOWS, LOOPS_WINDOW, 4, NEEDS_NOTHING, RF_SCORE_SHAPE,
           .fixed = true) },
    { FORM("2x2_texel", &rf_shader_pool_max_2x2_texel, WALK_WINDOWS, LOOPS_NONE, 4, NEEDS_2X2, RF_SCORE_DRIVER) },
    { WALK("walk_3", max_3, 3, false) },
};
const rf_kernel_list rf_max_pool_cpu = RF_KERNEL_LIST(max_pool);

static const rf_kernel max_pool_grad[] = {
    { FORM("2x2_eights", &rf_shader_pool_max_grad_2x2_eights8, WALK_QUADS, LOOPS_NONE, 8, NEEDS_2X2, RF_SCORE_DRIVER,
           .wide = &rf_shader_pool_max_grad_2x2_eights16) },
    { FORM("2x2_texel", &rf_shader_pool_max_grad_2x2_texel8, WALK_QUADS, LOOPS_NONE, 4, NEEDS_2X2, RF_SCORE_DRIVER,
           .wide = &rf_shader_pool_max_grad_2x2_texel16) },
    { "places_texel", rf_pool_places_score, rf_pool_places_plan,
      &(const rf_pool_places){ &rf_shader_pool_max_places_windows_texel, &rf_shader_pool_max_places_grad_texel, 4, true,
                               RF_SCORE_DRIVER } },
    { WALK("walk_3", max_grad_3, 3, true) },
};
const rf_kernel_list rf_max_pool_grad_cpu = RF_KERNEL_LIST(max_pool_grad);

static const rf_kernel avg_pool[] = {
    { FORM("texel", &rf_shader_pool_avg_texel, WALK_WINDOWS, LOOPS_WINDOW, 4, NEEDS_NOTHING, RF_SCORE_SHAPE,
           .fixed = true) },
    { WALK("walk_3", avg_3, 3, false) },
};
const rf_kernel_list rf_avg_pool_cpu = RF_KERNEL_LIST(avg_pool);

static const rf_kernel avg_pool_grad[] = {
    { FORM("texel", &rf_shader_pool_avg_grad_texel, WALK_ELEMENTS, LOOPS_COVERING, 4, NEEDS_NOTHING, RF_SCORE_SHAPE,
           .fixed = true) },
    { WALK("walk_3", avg_grad_3, 3, true) },
    { WALK("walk_2", avg_grad_2, 2, true) },
};
const rf_kernel_list rf_avg_pool_grad_cpu = RF_KERNEL_LIST(avg_pool_grad);
