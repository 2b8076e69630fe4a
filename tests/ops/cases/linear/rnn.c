/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define X(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0.7f, __VA_ARGS__)
/* Weights of which a hundred do not make states chaotic. */
#define SMALL(...) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0.05f, __VA_ARGS__)
#define MASK(n, t) RF_TENSOR(RF_F32, RF_FILL_INTEGER, 0, 2, 2, n, t)
#define GIVEN(gates, n, t, u) X(3, n, t, gates *(u)), X(2, u, gates *(u)), X(1, gates *(u))
#define EASY(gates, n, t, u) X(3, n, t, gates *(u)), SMALL(2, u, gates *(u)), X(1, gates *(u))
#define STATE(n, u) X(2, n, u)
/* clang-format off */
#define ATTR(...) .attr = &(const rf_rnn_attr){ __VA_ARGS__ }
/* clang-format on */
static const rf_op_case step_of_64x128 = { .name = "step", .n_in = 2, .in = { X(2, 64, 128), SMALL(2, 128, 384) } };
static const rf_op_case grad_step_of_64x128 = { .name = "step",
                                                .n_in = 2,
                                                .in = { X(2, 64, 384), SMALL(2, 128, 384) },
                                                .attr = &(const rf_matmul_attr){ .transpose_b = 1 } };
static const rf_op_case rnn_cases[] = {
    { RF_CASE_WITHIN("gru_1x1x1", 3, 1e-5, GIVEN(3, 1, 1, 1)), ATTR(.kind = RF_RNN_GRU), .check_gradient = true },
    { RF_CASE_WITHIN("gru_2x3x2", 5, 1e-5, GIVEN(3, 2, 3, 2), STATE(2, 2), MASK(2, 3)),
      ATTR(.kind = RF_RNN_GRU, .state = 1, .mask = 1) },
    { RF_CASE_WITHIN("gru_state_2x3x2", 4, 1e-5, GIVEN(3, 2, 3, 2), STATE(2, 2)), ATTR(.kind = RF_RNN_GRU, .state = 1),
      .check_gradient = true },
    { RF_CASE_WITHIN("gru_before_2x3x2", 4, 1e-5, GIVEN(3, 2, 3, 2), STATE(2, 2)),
      ATTR(.kind = RF_RNN_GRU, .reset_before = 1, .state = 1, .backwards = 1), .check_gradient = true },
    { RF_CASE_WITHIN("gru_before_5x4x13", 4, 1e-5, GIVEN(3, 5, 4, 13), MASK(5, 4)),
      ATTR(.kind = RF_RNN_GRU, .reset_before = 1, .mask = 1) },
    { RF_CASE_WITHIN("lstm_2x3x2", 5, 1e-5, GIVEN(4, 2, 3, 2), STATE(2, 2), STATE(2, 2)),
      ATTR(.kind = RF_RNN_LSTM, .state = 1), .check_gradient = true },
    { RF_CASE_WITHIN("lstm_back_1x3x2", 3, 1e-5, GIVEN(4, 1, 3, 2)), ATTR(.kind = RF_RNN_LSTM, .backwards = 1),
      .check_gradient = true },
    { RF_CASE_WITHIN("lstm_7x5x67", 6, 2e-5, GIVEN(4, 7, 5, 67), STATE(7, 67), STATE(7, 67), MASK(7, 5)),
      ATTR(.kind = RF_RNN_LSTM, .state = 1, .mask = 1, .backwards = 1) },
    { RF_CASE_WITHIN("simple_3x2x5", 4, 1e-5, GIVEN(1, 3, 2, 5), STATE(3, 5)), ATTR(.kind = RF_RNN_SIMPLE, .state = 1),
      .check_gradient = true },
    /* tiles of 16 examples and 32 units, whole and not */
    { RF_CASE_WITHIN("gru_19x6x36", 5, 2e-5, GIVEN(3, 19, 6, 36), STATE(19, 36), MASK(19, 6)),
      ATTR(.kind = RF_RNN_GRU, .state = 1, .mask = 1) },
    { RF_CASE_WITHIN("gru_32x3x32", 3, 2e-5, GIVEN(3, 32, 3, 32)), ATTR(.kind = RF_RNN_GRU, .backwards = 1) },
    { RF_CASE_WITHIN("lstm_5x4x68", 5, 2e-5, GIVEN(4, 5, 4, 68), STATE(5, 68), STATE(5, 68)),
      ATTR(.kind = RF_RNN_LSTM, .state = 1, .backwards = 1) },
    { RF_CASE_WITHIN("lstm_33x3x4", 4, 2e-5, GIVEN(4, 33, 3, 4), MASK(33, 3)), ATTR(.kind = RF_RNN_LSTM, .mask = 1) },
    { RF_CASE_WITHIN("simple_17x5x40", 5, 2e-5, GIVEN(1, 17, 5, 40), STATE(17, 40), MASK(17, 5)),
      ATTR(.kind = RF_RNN_SIMPLE, .state = 1, .mask = 1) },
    { RF_CASE_WITHIN("gru_64x64x128", 3, 2e-5, X(3, 64, 64, 384), SMALL(2, 128, 384), X(1, 384)),
      ATTR(.kind = RF_RNN_GRU), .benchmark = true, .products = &step_of_64x128, .large = true },
    /* more examples than a descriptor spans, where those are short */
    { RF_CASE_WITHIN("gru_before_331x2x3", 5, 1e-5, GIVEN(3, 331, 2, 3), STATE(331, 3), MASK(331, 2)),
      ATTR(.kind = RF_RNN_GRU, .reset_before = 1, .state = 1, .mask = 1) },
    { RF_CASE_WITHIN("simple_1x150x3", 4, 2e-5, GIVEN(1, 1, 150, 3), MASK(1, 150)),
      ATTR(.kind = RF_RNN_SIMPLE, .mask = 1) },
    /* kernels that an invocation can hold a part of, up to the widest */
    { RF_CASE_WITHIN("gru_3x2x132", 5, 2e-5, EASY(3, 3, 2, 132), STATE(3, 132), MASK(3, 2)),
      ATTR(.kind = RF_RNN_GRU, .state = 1, .mask = 1, .backwards = 1) },
    { RF_CASE_WITHIN("lstm_2x3x256", 3, 2e-5, EASY(4, 2, 3, 256)), ATTR(.kind = RF_RNN_LSTM) },
    { RF_CASE_WITHIN("simple_2x3x260", 3, 2e-5, EASY(1, 2, 3, 260)), ATTR(.kind = RF_RNN_SIMPLE) },
};
static const rf_op_case rnn_gpu_cases[] = {
    { RF_CASE_WITHIN("lstm_64x100x64", 3, 2e-5, EASY(4, 64, 100, 64)), ATTR(.kind = RF_RNN_LSTM), .benchmark = true },
    { RF_CASE_WITHIN("lstm_64x64x128", 3, 2e-5, EASY(4, 64, 64, 128)), ATTR(.kind = RF_RNN_LSTM), .benchmark = true },
    { RF_CASE_WITHIN("lstm_64x64x256", 3, 2e-5, EASY(4, 64, 64, 256)), ATTR(.kind = RF_RNN_LSTM), .benchmark = true },
    { RF_CASE_WITHIN("gru_64x1x128", 3, 2e-5, EASY(3, 64, 1, 128)), ATTR(.kind = RF_RNN_GRU), .benchmark = true },
};
#define FLOWS(gates, n, t, u)                                                                                          \
    X(3, n, t, u), X(2, u, gates *(u)), X(3, n, t, gates *(u)), X(3, n, t, gates *(u)), X(3, n, t, u)
#define EASY_FLOWS(gates, n, t, u)                                                                                     \
    X(3, n, t, u), SMALL(2, u, gates *(u)), X(3, n, t, gates *(u)), X(3, n, t, gates *(u)), X(3, n, t, u)
static const rf_op_case grad_cases[] = {
    { RF_CASE_WITHIN("gru_1x1x1", 5, 1e-5, FLOWS(3, 1, 1, 1)), ATTR(.kind = RF_RNN_GRU) },
    { RF_CASE_WITHIN("gru_5x4x13", 6, 1e-5, FLOWS(3, 5, 4, 13), MASK(5, 4)), ATTR(.kind = RF_RNN_GRU, .mask = 1) },
    { RF_CASE_WITHIN("gru_before_5x4x13", 6, 1e-5, FLOWS(3, 5, 4, 13), MASK(5, 4)),
      ATTR(.kind = RF_RNN_GRU, .reset_before = 1, .backwards = 1, .mask = 1) },
    { RF_CASE_WITHIN("lstm_2x3x2", 5, 1e-5, FLOWS(4, 2, 3, 2)), ATTR(.kind = RF_RNN_LSTM) },
    { RF_CASE_WITHIN("lstm_7x5x29", 7, 1e-4, FLOWS(4, 7, 5, 29), X(3, 7, 5, 29), MASK(7, 5)),
      ATTR(.kind = RF_RNN_LSTM, .state = 1, .mask = 1, .backwards = 1) },
    { RF_CASE_WITHIN("gru_19x6x36", 6, 1e-4, FLOWS(3, 19, 6, 36), MASK(19, 6)), ATTR(.kind = RF_RNN_GRU, .mask = 1),
      .unattended =
          true /* a gate that is full to the last bit has a slope of 0, which may meet an infinite number */ },
    { RF_CASE_WITHIN("gru_32x3x32", 5, 1e-4, FLOWS(3, 32, 3, 32)), ATTR(.kind = RF_RNN_GRU, .backwards = 1) },
    { RF_CASE_WITHIN("lstm_5x4x68", 6, 1e-4, FLOWS(4, 5, 4, 68), X(3, 5, 4, 68)),
      ATTR(.kind = RF_RNN_LSTM, .state = 1, .backwards = 1) },
    { RF_CASE_WITHIN("lstm_33x3x4", 6, 1e-4, FLOWS(4, 33, 3, 4), MASK(33, 3)), ATTR(.kind = RF_RNN_LSTM, .mask = 1) },
    { RF_CASE_WITHIN("simple_17x5x40", 6, 1e-4, FLOWS(1, 17, 5, 40), MASK(17, 5)),
      ATTR(.kind = RF_RNN_SIMPLE, .mask = 1) },
    { RF_CASE_WITHIN("gru_64x64x128", 5, 1e-4, X(3, 64, 64, 128), SMALL(2, 128, 384), X(3, 64, 64, 384),
                     X(3, 64, 64, 384), X(3, 64, 64, 128)),
      ATTR(.kind = RF_RNN_GRU), .benchmark = true, .products = &grad_step_of_64x128, .large = true },
    { RF_CASE_WITHIN("gru_331x2x3", 6, 1e-5, FLOWS(3, 331, 2, 3), MASK(331, 2)), ATTR(.kind = RF_RNN_GRU, .mask = 1) },
    { RF_CASE_WITHIN("simple_3x2x5", 5, 1e-5, FLOWS(1, 3, 2, 5)), ATTR(.kind = RF_RNN_SIMPLE) },
    { RF_CASE_WITHIN("gru_3x2x132", 6, 1e-4, EASY_FLOWS(3, 3, 2, 132), MASK(3, 2)),
      ATTR(.kind = RF_RNN_GRU, .mask = 1, .backwards = 1) },
    { RF_CASE_WITHIN("lstm_2x3x256", 6, 1e-4, EASY_FLOWS(4, 2, 3, 256), X(3, 2, 3, 256)),
      ATTR(.kind = RF_RNN_LSTM, .state = 1) },
    { RF_CASE_WITHIN("simple_2x3x260", 5, 1e-4, EASY_FLOWS(1, 2, 3, 260)), ATTR(.kind = RF_RNN_SIMPLE) },
};
static const rf_op_case grad_gpu_cases[] = {
    { RF_CASE_WITHIN("lstm_64x100x64", 5, 1e-4, EASY_FLOWS(4, 64, 100, 64)), ATTR(.kind = RF_RNN_LSTM),
      .benchmark = true },
    { RF_CASE_WITHIN("lstm_64x64x128", 5, 1e-4, EASY_FLOWS(4, 64, 64, 128)), ATTR(.kind = RF_RNN_LSTM),
      .benchmark = true },
    { RF_CASE_WITHIN("lstm_64x64x256", 5, 1e-4, EASY_FLOWS(4, 64, 64, 256)), ATTR(.kind = RF_RNN_LSTM),
      .benchmark = true },
    { RF_CASE_WITHIN("gru_64x1x128", 5, 1e-4, EASY_FLOWS(3, 64, 1, 128)), ATTR(.kind = RF_RNN_GRU), .benchmark = true },
};

RF_OP_AND_GPU_CASES(rnn, rnn_cases, rnn_gpu_cases);
RF_OP_AND_GPU_CASES(rnn_grad, grad_cases, grad_gpu_cases);
