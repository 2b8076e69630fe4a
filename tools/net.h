/* SPDX-License-Identifier: Apache-2.0 */
/* A network that the programs train on made-up data. */
#ifndef RINGFIRE_NET_H
#define RINGFIRE_NET_H

#include <argp.h>
#include <stdlib.h>

#include <ringfire/ringfire.h>

enum { BENCH_SIDE = 28, BENCH_CLASSES = 10, BENCH_CNN_LAYERS = 7 }; /* of the small CNN's images and labels */

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const rf_result try_result = (expression);                                                                     \
        if (try_result < 0) return try_result;                                                                         \
    } while (0)

/* Stays where it is while `step` is used. */
typedef struct bench_net {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_metric *accuracy; /* NULL: none */
    rf_function *step;
    uint32_t steps_per_execution; /* 0: 1 */
    float *inputs;
    int32_t *labels;
    rf_element batch;
} bench_net;

/* Reads the option --mixed: the type that layers compute with (f16, with scaled losses, or bf16; NULL: f32). For argp's
 * callback. */
rf_dtype bench_narrow_type(struct argp_state *state, const char *option, const char *text);
/* The strategy on one device, and the optimizer for it. */
rf_result bench_net_create_strategy(bench_net *net, const char *device, rf_dtype mixed);
rf_result bench_net_create_optimizer(bench_net *net, const rf_optimizer_params *params, rf_dtype mixed);

/* The layers of the custom-loop example's CNN: Conv 32 - pool - Conv 64 - pool - Dense 64 - Dense 10. */
rf_result bench_cnn_layers(rf_layer *layers[BENCH_CNN_LAYERS]);
/* The CNN with all that a batch of `count` made-up images takes, on the strategy that is there. */
rf_result bench_net_create_cnn(bench_net *net, uint32_t count, rf_dtype mixed);
/* A step of training with strategy, model, optimizer and metric that are there. */
rf_result bench_net_create_step(bench_net *net);
/* `count` inputs of noise in [0, 1), of the shape `input` ([0] is set to count), and labels of `classes` classes. */
rf_result bench_net_make_batch(bench_net *net, uint32_t count, rf_shape input, uint32_t classes);
void bench_net_destroy(bench_net *net);

#endif
