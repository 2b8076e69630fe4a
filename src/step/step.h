/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps, for src/trace/ and src/train/: the trace of one, and the function that runs it.
 *
 * A step runs in stages. Stage A: every replica computes its gradients (and metrics) for its share of the batch.
 * Exchange: gradients are reduce-scattered. Stage B: owners update their shard. Exchange: parameters are all-gathered.
 * With one replica A and B are one submission and nothing is exchanged.
 */
#ifndef RF_STEP_STEP_H
#define RF_STEP_STEP_H

#include "replica/strategy.h"

/* ---- the trace ---- */

/* The graph being traced; public handles are (value, trace serial). */
rf_graph *rf_trace_graph(rf_trace *t);
rf_strategy *rf_trace_strategy(const rf_trace *t);
/* Checks a handle: right trace, valid. Returns 0 (and makes the trace fail, unless it has failed already) otherwise. */
rf_value rf_trace_value(rf_trace *t, rf_tensor x, const char *argument);
rf_tensor rf_trace_wrap(rf_trace *t, rf_value v);
/* Every public tracing function that runs no code of the user's begins with this: whatever fails in it is told in the
 * name of the one that the user called, with the shapes that it was given. */
#define RF_TRACING(t)                                                                                                  \
    rf_trace *const tracing_ __attribute__((unused, cleanup(rf_trace_leave))) = rf_trace_enter((t), __func__)
rf_trace *rf_trace_enter(rf_trace *t, const char *function);
void rf_trace_leave(rf_trace *const *t);
/* From here to rf_trace_leave_layer() the operations of the graph are said to be of this layer: of layers within each
 * other the outermost counts. Outside they are of the function that the user called. */
void rf_trace_enter_layer(rf_trace *t, const char *layer);
void rf_trace_leave_layer(rf_trace *t);
/* Puts "<context>: " in front of the message of a trace that has failed. */
void rf_trace_context(rf_trace *t, const char *format, ...) RF_PRINTF(2, 3);
/* Passes on the result of an emit call: on failure the error sticks to the trace and the invalid tensor is returned. */
rf_tensor rf_trace_emit(rf_trace *t, rf_result result, rf_value v);
/* HOST values that are provided before each run (ops.h says what `random` holds). The step in it counts the runs of
 * this function that were submitted before, for functions with `training`; it is 0 for all others. */
typedef enum rf_host_value {
    RF_HOST_RANDOM,         /* i32 [6]; all others are f32 scalars */
    RF_HOST_GLOBAL_BATCH,   /* examples of all replicas */
    RF_HOST_INVERSE_ACTIVE, /* 1 / number of replicas with examples in this step */
    RF_HOST_WEIGHT,         /* the replica's share of the batch's examples */
    RF_HOST_COUNT
} rf_host_value;
rf_value rf_trace_host(rf_trace *t, rf_host_value which);
/* Which examples of the batch the value's elements belong to (graph/examples.h); valid until the trace goes on. */
rf_result rf_trace_examples(rf_trace *t, rf_value v, const rf_examples **out);
/* Whether a run of the trace computes a share of the batch, others computing the rest; then who does, for messages. */
bool rf_trace_is_share(const rf_trace *t, char *who, size_t size);
/* A number of its own for each call within a trace: stream of dropout and the like. */
uint32_t rf_trace_next_stream(rf_trace *t);

/* ---- variables ---- */

/* The variable's STATE value; an error that names both when it is of another strategy. */
rf_value rf_trace_variable(rf_trace *t, rf_variable *variable);
/* Listeners that are told which variables a trace uses, the innermost first. A failure makes the trace fail. */
typedef struct rf_trace_listener {
    rf_result (*uses)(void *user, rf_variable *variable);
    void *user;
    const struct rf_trace_listener *outer;
} rf_trace_listener;
const rf_trace_listener *rf_trace_listeners(const rf_trace *t);
/* Borrowed until the next call; `outer` of it is normally what rf_trace_listeners() gave. */
void rf_trace_listen(rf_trace *t, const rf_trace_listener *listener);
/* Traces `body` outside of any step into a graph of its own, which is the caller's. It may use nothing that a strategy
 * holds: `name` is for messages. */
rf_result rf_trace_alone(rf_strategy *strategy, const char *name, rf_result (*body)(rf_trace *t, void *user),
                         void *user, rf_graph **out);

/* The value that the variable has after the step as it is traced so far; its value where nothing has assigned it. */
rf_tensor rf_trace_assigned(rf_trace *t, rf_variable *variable);
/* rf_variable_update() that may replace what was assigned before: for layers that are called several times. */
rf_result rf_trace_assign(rf_trace *t, rf_variable *variable, rf_tensor value, rf_aggregation aggregation);

/* Its words in a trace, i32; 0: failed. */
rf_value rf_trace_words(rf_trace *t, rf_variable *variable);
rf_value rf_trace_local_state(rf_trace *t, rf_local_state *state); /* STATE value f32 [count], or the table */
/* The scale of losses as a STATE value, f32 [1], of an updater that scales them. */
rf_value rf_trace_loss_scale(rf_trace *t, rf_updater *updater);
/* Whether a sum over replicas is more than the replica's own. Fails the trace where replicas take their steps at
 * different times. */
bool rf_trace_needs_sum(rf_trace *t);

/* Rows of dimension 0 that an example has at this point of the trace: more than 1 within layers that take the steps of
 * examples for examples. Numbers of the batch count examples. */
uint64_t rf_trace_rows(const rf_trace *t);
void rf_trace_set_rows(rf_trace *t, uint64_t rows);
/* Groups of so many consecutive examples of the global batch stay together on one replica: each one's share is a
 * multiple of it, but for the last examples of the batch. `what` is for messages. */
void rf_trace_keep_together(rf_trace *t, uint32_t examples, const char *what);

/* ---- gradients and updates ---- */

/* The variable whose gradient rf_gradients() gave as this value; NULL: it did not. */
rf_variable *rf_trace_gradient_of(const rf_trace *t, rf_value v);
/* `loss` was made of what `value` comes from instead of the value itself: rf_gradients() refuses such a target. */
rf_result rf_trace_pass_over(rf_trace *t, rf_value value, rf_value loss);
/* The loss of which rf_gradients() gave gradients for one of them; 0: it did not. */
rf_value rf_trace_loss_of(const rf_trace *t, rf_variable_list variables);
/* Whether rf_gradients() gave this for a variable that has no influence on the loss: zeros. */
bool rf_trace_is_unreached(const rf_trace *t, rf_value v);
/* Variable behind a STATE slot of the trace's graph; NULL: state of each replica. */
rf_variable *rf_trace_slot_variable(const rf_trace *t, uint32_t slot);
/* A leaf of the trace's graph that all replicas have alike: variables, constants, numbers of the whole batch. */
bool rf_trace_leaf_is_common(const rf_trace *t, rf_value leaf);

typedef struct rf_step_divisor {
    rf_divisor_kind kind;
    rf_value own, total; /* of WEIGHTS: the replica's sum, and that of all; f32 scalars */
    rf_value weights;    /* of WEIGHTS: what the caller gave, or has a view of; sums of the same ones are multiples */
    double elements;     /* of WEIGHTS: so many of them an example has */
} rf_step_divisor;
/* Notes what a value of the trace, a loss, was divided by; and says it again, NULL: nothing was noted. */
rf_result rf_trace_note_divisor(rf_trace *t, rf_value loss, const rf_step_divisor *divisor);
const rf_step_divisor *rf_trace_noted_divisor(const rf_trace *t, rf_value loss);
/* Whether it is RF_HOST_GLOBAL_BATCH. */
bool rf_trace_is_batch_size(const rf_trace *t, rf_value v);
/* Values that a step reads and changes to be weighed; 0 where it is not needed. */
typedef struct rf_step_weighing {
    rf_value unit;  /* f32 scalar. BATCH: the step's factor. WEIGHTS: what makes one of the sum of weights */
    rf_value keep;  /* WEIGHTS: f32 scalar, 0 where `state` is of an update before, else 1 */
    rf_value state; /* WEIGHTS: STATE f32 [1], to which the replica's own sum is to be added */
} rf_step_weighing;
/* For the update that is registered next, by an updater that accumulates. */
rf_result rf_trace_weigh_step(rf_trace *t, rf_updater *updater, const rf_step_divisor *divisor, rf_step_weighing *out);

/* In a trace: after this step's gradients (values of the trace's graph, shaped like the variables) are reduced over the
 * replicas, update the variables. Once per step and updater; a variable takes part in one update per step. A failure
 * also makes the trace fail. `transform` (NULL: none) is empty afterwards, whatever the result. */
rf_result rf_trace_update(rf_trace *t, rf_updater *updater, const rf_value *gradients, rf_variable_list variables,
                          rf_gradient_transform *transform);

/* ---- functions ---- */

/* Runs of a function with `training` that were submitted, so that a resumed run can continue the count. */
uint64_t rf_function_step(const rf_function *function);
/* Drops all traces, and with them what they hold; the next run traces anew. Waits. */
rf_result rf_function_forget(rf_function *function);
void rf_function_set_step(rf_function *function, uint64_t step);
/* The next run computes a share of step `step`, and begins with row `row` of it: for random numbers. */
void rf_function_set_share(rf_function *function, uint64_t step, uint64_t row);
/* The graph of a function's latest trace, before it is compiled; NULL before the first. Borrowed. */
const rf_graph *rf_function_graph(const rf_function *function);
rf_strategy *rf_function_strategy(const rf_function *function);
/* For those that keep it: a shell of it stays in memory until they release it, even when its maker has destroyed it. */
rf_function *rf_function_retain(rf_function *function);
void rf_function_release(rf_function *function);
/* Fails, in the name of the public function, when its maker has destroyed it. */
rf_result rf_function_check_alive(const rf_function *function, const char *caller);

#endif
