/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

static const rf_top_k_attr k1 = { 1, 0 }, k3 = { 3, 0 }, k5 = { 5, 0 }, k8 = { 8, 0 }, k64 = { 64, 0 },
                           k100 = { 100, 0 }, k1009 = { 1009, 0 }, ascending = { 0, RF_TOP_K_ASCENDING },
                           descending = { 0, RF_TOP_K_DESCENDING }, smallest_3 = { 3, RF_TOP_K_ASCENDING };
#define NORMAL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__)
#define TIES(...) RF_TENSOR(RF_F32, RF_FILL_INTEGER, -2, 3, __VA_ARGS__)
#define DISTINCT(...) RF_TENSOR(RF_F32, RF_FILL_DISTINCT, 0, 0, __VA_ARGS__)
#define CASE(text, attr_, ...) .name = text, .attr = &attr_, .n_in = 1, .in = { __VA_ARGS__ }
static const rf_op_case top_k_cases[] = {
    { CASE("1_of_1", k1, NORMAL(1, 1)) },
    { CASE("1_of_2x7", k1, DISTINCT(2, 2, 7)), .check_gradient = true },
    { CASE("3_of_3x3", k3, DISTINCT(2, 3, 3)), .check_gradient = true },
    { CASE("3_of_2x3x5", k3, DISTINCT(3, 2, 3, 5)), .check_gradient = true },
    { CASE("5_of_11", k5, DISTINCT(1, 11)), .check_gradient = true },
    { CASE("ties_5_of_33x17", k5, TIES(2, 33, 17)) },
    { CASE("equal_8_of_7x31", k8, RF_TENSOR(RF_F32, RF_FILL_ZERO, 0, 0, 2, 7, 31)) },
    { CASE("8_of_257x100", k8, NORMAL(2, 257, 100)) },
    { CASE("64_of_5x64", k64, NORMAL(2, 5, 64)) },
    { CASE("ties_64_of_9x1009", k64, TIES(2, 9, 1009)) },
    { CASE("100_of_3x1009", k100, NORMAL(2, 3, 1009)) },
    { CASE("1009_of_2x1009", k1009, TIES(2, 2, 1009)) },
    { CASE("ascending_1x1", ascending, NORMAL(2, 1, 1)) },
    { CASE("ascending_3x7", ascending, DISTINCT(2, 3, 7)), .check_gradient = true },
    { CASE("descending_2x2x5", descending, DISTINCT(3, 2, 2, 5)), .check_gradient = true },
    { CASE("ascending_ties_9x17", ascending, TIES(2, 9, 17)) },
    { CASE("descending_ties_33x128", descending, TIES(2, 33, 128)) },
    { CASE("ascending_3_of_5x100", smallest_3, NORMAL(2, 5, 100)) },
    { CASE("descending_3x1009", descending, NORMAL(2, 3, 1009)) },
    { CASE("ascending_2x4099", ascending, NORMAL(2, 2, 4099)) },
    { CASE("ascending_64x16", ascending, NORMAL(2, 64, 16)), .benchmark = true },
    { CASE("ascending_64x128", ascending, NORMAL(2, 64, 128)), .benchmark = true },
    { CASE("ascending_1x1000", ascending, NORMAL(2, 1, 1000)), .benchmark = true },
    { CASE("ascending_64x1000", ascending, NORMAL(2, 64, 1000)), .benchmark = true },
    { CASE("descending_1x16384", descending, NORMAL(2, 1, 16384)), .benchmark = true, .large = true },
    { CASE("descending_16x16384", descending, NORMAL(2, 16, 16384)), .benchmark = true, .large = true },
    { CASE("5_of_64x1000", k5, NORMAL(2, 64, 1000)), .benchmark = true },
    { CASE("64_of_64x1000", k64, NORMAL(2, 64, 1000)), .benchmark = true },
    { CASE("8_of_16x32000", k8, NORMAL(2, 16, 32000)), .benchmark = true },
    /* rows longer than some drivers let one loop be */
    { CASE("8_of_2x70001", k8, NORMAL(2, 2, 70001)) },
    { CASE("ties_3_of_3x131101", k3, TIES(2, 3, 131101)) },
    { CASE("100_of_1x70001", k100, NORMAL(2, 1, 70001)), .large = true },
    /* more than one descriptor spans at the smallest limits: several dispatches */
    { CASE("3_of_34000x1024", k3, TIES(2, 34000, 1024)), .large = true },
};

RF_OP_CASES(top_k, top_k_cases);
