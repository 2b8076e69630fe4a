/* SPDX-License-Identifier: Apache-2.0 */
/* Functions, their traces and their results. */
#ifndef RF_STEP_FUNCTION_H
#define RF_STEP_FUNCTION_H

#include "graph/examples.h"
#include "replica/internal.h"
#include "step/batched_submission.h"
#include "step/signature.h"
#include "step/step.h"

typedef struct rf_gradient_handle {
    rf_value value, loss;
    rf_variable *variable; /* NULL: of one without influence */
} rf_gradient_handle;

/* The call of a tracing function by the step. */
typedef struct rf_trace_call {
    const char *function;
    uint32_t depth; /* 0: there is none; more than 1: in functions that it is composed of */
    struct {
        char name[24];
        rf_value value;
    } operands[4]; /* those that were looked at so far */
    uint32_t num_operands;
} rf_trace_call;

/* A value that lies on no way from `loss` to its gradients, although the caller computed the one from the other. */
typedef struct rf_passed_over {
    rf_value value, loss;
} rf_passed_over;

typedef struct rf_noted_divisor {
    rf_value loss;
    rf_step_divisor divisor;
} rf_noted_divisor;

struct rf_trace {
    uint32_t serial;
    const rf_trace_listener *listener; /* NULL: none */
    rf_strategy *strategy;
    rf_function *function;
    rf_signature *signature;
    rf_result status;
    rf_error_record error;
    rf_trace_call call;
    uint32_t streams;
    uint32_t layers; /* calls of them within each other */
    uint64_t rows;   /* of dimension 0 in an example */
    rf_examples_map examples;
    struct {
        rf_gradient_handle *items;
        uint32_t count, capacity;
    } gradients; /* that rf_gradients() gave for variables */
    struct {
        rf_passed_over *items;
        uint32_t count, capacity;
    } passed_over;
    struct {
        rf_noted_divisor *items;
        uint32_t count, capacity;
    } divisors;
    rf_update_weighing weighing; /* of the update that comes next */
};

/* Result of one replica: in the frame as long as that lives, else in `copy`. */
typedef struct rf_replica_value {
    rf_frame *frame;
    rf_exec *exec;
    uint64_t ticket;
    rf_tensor_desc desc;
    void *copy;
} rf_replica_value;
struct rf_per_replica {
    rf_function *function; /* not a counted reference: the function owns this */
    uint32_t output;
    rf_replica_value *values; /* [num_local] */
    uint32_t *examples;       /* [num_replicas] */
};

struct rf_function {
    uint32_t references; /* its maker's, and one of each checkpoint that has it */
    bool destroyed;      /* by its maker; only what this struct itself holds is left */
    rf_strategy *strategy;
    rf_function_params params;
    char *name;
    uint64_t step;            /* runs so far, counted when training */
    uint64_t first_row;       /* of the step, where the batch is a share of it that a worker of parameter servers has */
    uint32_t num_submissions; /* of the latest run, to the device of this worker's first replica */
    uint32_t num_traces;
    struct {
        rf_signature **items;
        uint32_t count, capacity;
    } signatures;
    rf_per_replica results[2][RF_MAX_COMPONENTS];
    uint32_t parity; /* which half the next run fills */
    rf_submission_batch group;
    uint32_t *examples; /* [num_replicas], of the run being made */
    rf_frame **frames;  /* [num_local] */
};

rf_result rf_trace_run(rf_function *function, rf_signature *signature);
void rf_trace_free(rf_trace *t); /* what it holds beside its signature */
/* A STATE value; `ref` (whose object the caller has not retained) is remembered under its slot. */
rf_value rf_trace_state(rf_trace *t, const void *object, rf_tensor_desc desc, const char *name, rf_state_ref ref);
/* The step may fail through the trace, by passing on the result of a failed call, or with a code of its own; `before`
 * is rf_error_count() when it was called. */
rf_result rf_trace_returned(rf_trace *t, rf_result returned, uint64_t before);
/* The calling thread's record becomes the trace's, unless it has failed before. */
rf_result rf_trace_keep_failure(rf_trace *t, rf_result result);
/* An operand of the call; `argument` is "function: parameter". */
void rf_trace_note_operand(rf_trace *t, rf_value v, const char *argument);
/* The call that the graph's operations are said to be of, from here on. */
rf_result rf_trace_label(rf_trace *t, const char *call);
/* Makes the message of a failure one of the call, with the shapes of its operands, in the thread's record, too. */
void rf_trace_name_failure(const rf_trace *t, rf_error_record *record);
/* Makes the means of what a trace assigns sums over replicas. */
rf_result rf_trace_weigh_assigned(rf_trace *t);
/* Assigned values, sums over replicas and gradients of a complete trace have one shape, whatever the batch. */
rf_result rf_trace_check_shapes(const rf_signature *signature);

/* Waits, and moves results out of their frames, before those go. */
rf_result rf_function_detach_results(rf_function *function);
void rf_per_replica_free(rf_per_replica *value, uint32_t num_local);

#endif
