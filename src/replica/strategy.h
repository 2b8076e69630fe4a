/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of strategies, for the layers above: variables, local state, and updates of mirrored variables. */
#ifndef RF_REPLICA_STRATEGY_H
#define RF_REPLICA_STRATEGY_H

#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#include "base/error.h"
#include "base/loss_scale.h"
#include "base/quantized_weight.h"
#include "base/split.h"
#include "base/state_form.h"
#include "graph/graph.h"

/* A number that the strategy gave to no other trace or builder; never 0. */
uint32_t rf_strategy_next_serial(rf_strategy *s);
uint64_t rf_strategy_seed(const rf_strategy *strategy);
/* The type of its policy. */
rf_dtype rf_strategy_compute(const rf_strategy *strategy);
/* While set, layers compute in f32 whatever their policy says: for graphs that go into files. */
void rf_strategy_set_wide(rf_strategy *strategy, bool wide);
bool rf_strategy_is_wide(const rf_strategy *strategy);
/* Checked; the type that the policy names. `function` is for messages. */
rf_result rf_dtype_policy_type(const rf_dtype_policy *policy, const char *function, rf_dtype *out);
/* The abilities of the device of a replica of this worker. */
const rf_device_caps *rf_strategy_caps(const rf_strategy *strategy, uint32_t replica);
/* Puts replica and device in front of a failure's message; `index` is that of a replica of this worker. */
rf_result rf_replica_context(const rf_strategy *strategy, uint32_t index, rf_result result);
/* Runs a kernel once by itself on a replica of this worker: `in` and `out` are bytes on the host. Writing beside an
 * output is RF_ERROR_INTERNAL. */
rf_result rf_replica_run_kernel(rf_strategy *strategy, uint32_t index, const rf_op_call *call, const rf_kernel *kernel,
                                void *const *in, void *const *out);
rf_strategy *rf_variable_strategy(const rf_variable *variable);
/* Variables are counted. */
rf_variable *rf_variable_retain(rf_variable *variable);
void rf_variable_release(rf_variable *variable);

/* ---- per-replica state that is summed when read (metrics) ---- */
typedef struct rf_local_state rf_local_state;
rf_result rf_local_state_create(rf_strategy *strategy, uint32_t count, const char *name,
                                rf_local_state **out); /* f32, zero */
/* The same array, of whole words, on every replica of this worker: for steps that only read it. */
rf_result rf_local_state_create_table(rf_strategy *strategy, const rf_array *array, const char *name,
                                      rf_local_state **out);
void rf_local_state_destroy(rf_local_state **state);
/* Values of every replica one after the other: num_replicas * count floats. Collective. */
rf_result rf_local_state_read(rf_local_state *state, float *values);
/* Those of this worker's replicas: num_local_replicas * count floats. Blocking, not collective. */
rf_result rf_local_state_read_local(rf_local_state *state, float *values);
rf_result rf_local_state_reset(rf_local_state *state);
/* Sets the values of this worker's replicas from those of all of them, as rf_local_state_read() gives them. */
rf_result rf_local_state_write(rf_local_state *state, const float *values);
uint32_t rf_local_state_count(const rf_local_state *state);

/* ---- updates: what an optimizer plugs into a strategy ---- */

/* The settings that updates are made with, one after the other: a hash, which workers compare before each step, and
 * where it is wanted a line of each, "name value", by which they find out what differs. */
typedef struct rf_update_settings {
    uint64_t hash;
    bool wants_text;
    const char *list; /* whose entry `index` is being described; NULL: none */
    uint32_t index;
    struct {
        char *items;
        uint32_t count, capacity;
    } text;
    rf_result result; /* of making the text */
} rf_update_settings;
void rf_update_settings_number(rf_update_settings *settings, const char *name, double value);
void rf_update_settings_text(rf_update_settings *settings, const char *name, const char *value);

#define RF_MAX_SLOTS 8
#define RF_MAX_SCALARS 32
typedef struct rf_updater rf_updater;

/* Variables whose step is scaled by the ratio of two norms, taken in the middle of the update (LAMB). */
typedef struct rf_norm_ratio_rule {
    /* Before emit(), of the same range, which lies within one variable: mutates the slots, and gives two sums of
     * squares for each block of `block` elements from the variable's beginning on, f32 [blocks, 2]. `scale` not 1: the
     * slots have been changed; the same sums of what is so many times as large. */
    rf_result (*emit)(void *user, rf_graph *g, rf_value param, rf_value grad, const rf_value *slots,
                      const rf_value *hyper, float scale, rf_value *sums);
    uint32_t ratio_hyper; /* this number becomes the ratio of the whole variable's norms, where both are positive */
    uint32_t block;
} rf_norm_ratio_rule;

/* Variables that are updated along a direction made of the whole of them (Muon): emit() of the updater gets it in the
 * place of the gradient. */
typedef struct rf_whole_matrix_rule {
    uint32_t first_group; /* variables of this group and those behind it are */
    /* Changes slots and writes the direction [n] of a range. */
    rf_result (*emit_range)(void *user, rf_graph *g, uint32_t group, rf_value direction, rf_value grad,
                            const rf_value *slots, const rf_value *hyper);
    /* Then changes that of a whole variable, of the variable's shape. */
    rf_result (*emit_whole)(void *user, rf_graph *g, uint32_t group, rf_value direction);
} rf_whole_matrix_rule;

/* Norms of the mean gradient: the reduced sum divided by accumulation_steps. */
typedef enum rf_gradient_norms {
    RF_NORMS_NONE,
    RF_NORMS_VARIABLE, /* hyper() is called for each variable, with the norm of its gradient */
    RF_NORMS_GLOBAL    /* hyper() is called once for each group, with the norm over all variables of the update */
} rf_gradient_norms;

/* An optimizer, as strategies see it. Each rule, kind of norms and way to scale losses appends its stages to the steps
 * that update
 * (../replica/update/update_plan.c). */
typedef struct rf_updater_params {
    void *user;
    uint32_t num_slots;                /* flat arrays like the parameters; at most RF_MAX_SLOTS */
    float initial[RF_MAX_SLOTS];       /* what the elements of a slot begin as; 0 where that is not in f32 */
    rf_state_form forms[RF_MAX_SLOTS]; /* what a slot is stored in; zeroed: f32 */
    uint32_t weights_slot;             /* 1 + the slot that begins as the variable itself; 0: none does */
    /* >= 1. `grad` is then the *sum* over that many steps: a mean is left to hyper() (a factor 1 / accumulation_steps;
     * where steps count differently, `scale_hyper` is corrected).
     * Update number `iteration` is the one after step (iteration + 1) * accumulation_steps. */
    uint32_t accumulation_steps;
    rf_gradient_norms norms;
    const rf_norm_ratio_rule *norm_ratio;     /* NULL: none; else hyper() is called for each variable, too */
    const rf_whole_matrix_rule *whole_matrix; /* NULL: none */
    rf_loss_scaling scaling;                  /* `initial` 0: losses are not scaled */
    /* Appends the update of one flat range: param [n] and slots [n] are mutated, grad [n] is read; hyper[0] is f32
     * [hyper_count], hyper[1] and on are `num_scalars` f32 scalars. `shadow` (0: there is none) is f16 or bf16 [n]:
     * what changes param last writes its new values there, too. Slots that are not in f32 are words, i32, which end
     * with those of the range; what stands before them must stay. Called several times per graph; must be element-wise
     * and leave zeros zero where param, grad and slots are all zero (padding between variables). `group` is that of the
     * range's variables, which begins at element `first` of all. */
    rf_result (*emit)(void *user, rf_graph *g, uint32_t group, uint64_t first, rf_value param, rf_value grad,
                      const rf_value *slots, const rf_value *hyper, rf_value shadow);
    uint32_t hyper_count, num_scalars;
    uint32_t scale_hyper; /* which of the numbers, or of the scalars behind them, gradients are multiplied with */
    uint32_t rate_hyper;  /* which of the numbers is the learning rate (what RINGFIRE_TEST_PERTURB changes) */
    /* Numbers for update number `iteration` (from 0); `values` has hyper_count entries, after them num_scalars.
     * `norm` is the norm that was asked for, else 0. */
    void (*hyper)(void *user, uint64_t iteration, double norm, uint32_t group, float *values);
    /* Groups of variables have numbers of their own. 0 and 1: there is one group, number 0, and group() is not called.
     */
    uint32_t num_groups;
    uint32_t (*group)(void *user, const rf_variable *variable); /* below num_groups, always the same */
    /* Describes all that update number `iteration` is made with. NULL: nothing. */
    void (*describe)(void *user, uint64_t iteration, rf_update_settings *settings);
} rf_updater_params;
rf_result rf_updater_create(rf_strategy *strategy, const rf_updater_params *params, rf_updater **out);
void rf_updater_destroy(rf_updater **updater);
const rf_updater_params *rf_updater_parameters(const rf_updater *updater);
/* From now on it only waits to be destroyed: functions that update with it fail and say so. */
void rf_updater_retire(rf_updater *updater);
/* While set, functions that update with it fail with this message, which stays where it is. NULL: no longer. */
void rf_updater_suspend(rf_updater *updater, const char *why);
/* hyper() gives other numbers from here on for what it is asked. */
void rf_updater_change_numbers(rf_updater *updater);
/* Where losses are scaled, waits for steps that may have been skipped. */
uint64_t rf_updater_iterations(rf_updater *updater);
/* A variable's elements of a slot, rf_shape_count() floats: what checkpoints hold. Initial values for a variable that
 * was never updated. Both are collective. Writing makes the variable known to the updater, so that state can be
 * restored before the first step. */
rf_result rf_updater_read_slot(rf_updater *updater, uint32_t slot, const rf_variable *variable, float *values);
rf_result rf_updater_write_slot(rf_updater *updater, uint32_t slot, const rf_variable *variable, const float *values);
/* Makes several variables known at once, before their slots are written. */
rf_result rf_updater_learn(rf_updater *updater, rf_variable *const *variables, uint32_t count);
void rf_updater_set_iterations(rf_updater *updater, uint64_t iterations);
/* Scale, finite steps in a row, steps skipped. Waits. */
rf_result rf_updater_read_scale(rf_updater *updater, float *scale, uint32_t *finite, uint64_t *skipped);
rf_result rf_updater_write_scale(rf_updater *updater, float scale, uint32_t finite);
/* All variables that it knows; borrowed until it learns another. */
rf_variable_list rf_updater_variables(const rf_updater *updater);
/* Steps since the last update, and what they summed up: num_replicas * rf_shape_count() floats, of every replica one
 * after the other. Reading is collective. Writing makes the variable known to the updater. */
uint32_t rf_updater_accumulated(const rf_updater *updater);
void rf_updater_set_accumulated(rf_updater *updater, uint32_t steps);
rf_result rf_updater_read_totals(rf_updater *updater, const rf_variable *variable, float *values);
rf_result rf_updater_write_totals(rf_updater *updater, rf_variable *variable, const float *values);

/* Elements of a variable, and the worker that has their state; RF_RANK_ALL: every worker has it. */
#define RF_RANK_ALL UINT32_MAX
typedef struct rf_owned {
    uint32_t rank;
    rf_range range;
} rf_owned;
typedef struct rf_owned_list {
    rf_owned *items;
    uint32_t count, capacity;
} rf_owned_list;
/* Appends which worker has which elements of a variable's slots, in order and without gaps: the same on every worker.
 * Nothing for a variable that the updater does not know. */
rf_result rf_updater_owners(const rf_updater *updater, const rf_variable *variable, rf_owned_list *out);
/* Elements of a variable's slot that this worker has. Not collective. */
rf_result rf_updater_read_owned(rf_updater *updater, uint32_t slot, const rf_variable *variable, rf_range range,
                                float *values);
/* Elements of a variable, as rf_variable_read() gives them. */
rf_result rf_variable_read_range(const rf_variable *variable, rf_range range, float *values);
/* Sets some of its elements, as rf_variable_assign() sets all. */
rf_result rf_variable_assign_range(rf_variable *variable, rf_range range, const float *values);
/* rf_variable_create() of such a weight, which is stored as rf_strategy_set_quantization() says: in few bits it is not
 * trained, and words alone ever get to a device. */
rf_result rf_variable_create_weight(rf_strategy *strategy, const rf_variable_params *params, rf_weight_matrix matrix,
                                    rf_variable **out);
/* These rules and those of the strategy change places. */
void rf_strategy_exchange_quantization(rf_strategy *strategy, rf_quantize_rules *rules);
/* How one is stored in few bits; NULL: in f32. */
const rf_quantized_layout *rf_variable_quantized(const rf_variable *variable, rf_quantization *kind);
/* Makes the words of its values, as many as its layout has, for the next function. */
rf_result rf_variable_pack(const rf_variable *variable, const float *values, void *words);
rf_result rf_variable_write_words(rf_variable *variable, const void *words);
/* It has been assigned since it was made, or since its words were written. */
bool rf_variable_was_assigned(const rf_variable *variable);
/* Whoever has the values of the variables that are about to be made: each is asked for, before it takes memory, and has
 * no values until they are assigned, or those of its initializer where the answer is above 0. */
typedef struct rf_variable_source {
    rf_result (*admit)(void *user, const char *name, rf_shape shape);
    void *user;
} rf_variable_source;
void rf_strategy_set_variable_source(rf_strategy *strategy,
                                     const rf_variable_source *source); /* borrowed; NULL: none */
/* Room for further variables: elements of so many trainable ones, and words of so many matrices in few bits. */
typedef struct rf_variable_room {
    uint64_t elements, variables, words, matrices;
} rf_variable_room;
/* Makes it, so that nothing has to move as they come. */
rf_result rf_strategy_reserve_variables(rf_strategy *strategy, const rf_variable_room *room);
/* Which form a weight of that name will have. */
rf_quantization rf_strategy_quantization(const rf_strategy *strategy, const char *name, bool table);
/* The rows of this worker's replicas of what rf_updater_read_totals() gives. Not collective. */
rf_result rf_updater_read_own_totals(rf_updater *updater, const rf_variable *variable, float *values);
/* Number of a worker's first replica; of rank world size: of all replicas. */
uint32_t rf_strategy_first_replica(const rf_strategy *strategy, uint32_t rank);

/* Copies of state as it is after all that was submitted, made while training goes on (state_copy.c). */
typedef struct rf_state_copy rf_state_copy;
rf_result rf_state_copy_create(rf_strategy *strategy, rf_state_copy **out);
void rf_state_copy_destroy(rf_state_copy **copy); /* not while it runs */
/* Elements of a variable to `to`, which stays where it is until the copy has run. Not *taken: this worker cannot map
 * all of them, or steps change it in other ways than by updates; then read it the ordinary way. Not collective. */
rf_result rf_state_copy_variable(rf_state_copy *copy, const rf_variable *variable, rf_range range, float *to,
                                 bool *taken);
/* The same for elements of a slot, of a variable that the updater knows. Not *taken either where another worker has
 * some. */
rf_result rf_state_copy_slot(rf_state_copy *copy, const rf_updater *updater, uint32_t slot, const rf_variable *variable,
                             rf_range range, float *to, bool *taken);
/* From here on the state stays as it is until rf_state_copy_run() has ended, which has to be called, in any thread. */
rf_result rf_state_copy_begin(rf_state_copy *copy);
rf_result rf_state_copy_run(rf_state_copy *copy);

/*
 * A step's computation on gradients that are summed over all replicas; the step updates with the results. Its STATE
 * values are, by slot, reduced gradients (sums over accumulation_steps where gradients are accumulated) and variables.
 */
typedef struct rf_transform_state {
    rf_variable *variable; /* borrowed: the signature has a reference */
    bool gradient;         /* its reduced gradient, else its value */
} rf_transform_state;
typedef struct rf_gradient_transform {
    rf_graph *graph;   /* NULL: gradients are used as they are */
    rf_value *results; /* one for each variable of the update */
    bool weighs;       /* HOST slots 0 and 1, f32 scalars: what makes means of sums over steps, and sums of means */
    struct {
        rf_transform_state *items;
        uint32_t count, capacity;
    } states; /* by slot */
} rf_gradient_transform;
void rf_gradient_transform_free(rf_gradient_transform *transform);

/* The divisor of a step's loss, for steps whose gradients are accumulated (step_weight.c). */
typedef enum rf_divisor_kind {
    RF_DIVISOR_NONE,   /* nothing that is known: each step counts 1 */
    RF_DIVISOR_BATCH,  /* the examples of all replicas */
    RF_DIVISOR_WEIGHTS /* a sum of weights over all replicas */
} rf_divisor_kind;
/* Sum and unit of what the accumulated steps count: reading is collective. */
rf_result rf_updater_read_weight(rf_updater *updater, double *sum, double *reference);
void rf_updater_write_weight(rf_updater *updater, double sum, double reference);

/* ---- shares of the batch ---- */

/* [num_replicas], any scale; NULL: equal. Borrowed until the next run. */
const double *rf_strategy_shares(const rf_strategy *strategy);
/* They follow what is measured (RF_BALANCE_AUTO). */
bool rf_strategy_shares_move(const rf_strategy *strategy);
/* Whether it has been called before: for a warning that comes once. */
bool rf_strategy_warned_of_shares(rf_strategy *strategy);

/* A failure in a child of the process that made the strategy: nothing of it may be used there, waited for or given
 * back. */
rf_result rf_strategy_check_process(const rf_strategy *strategy);
bool rf_strategy_is_foreign(const rf_strategy *strategy); /* the same, without a failure */

/* Parameter servers hold the variables from here on: steps that assign others than those are refused. */
void rf_strategy_set_remote(rf_strategy *strategy, bool remote);
/* The same for one that no optimizer updates: steps may assign to it. */
void rf_variable_set_served(rf_variable *variable, bool served);
/* Whether the latest step of the optimizer that updates it was of it too. */
bool rf_variable_is_updated(const rf_variable *variable);

/* ---- for the status of the job (<ringfire/status.h>) ---- */

/* Whether anybody may read what is told about the job here. */
bool rf_strategy_has_status(const rf_strategy *strategy);
/* A checkpoint has been written. */
void rf_strategy_note_checkpoint(rf_strategy *strategy, const char *path);

/* ---- for loops that make collective calls ---- */

/* Name, memory and largest allocation of the device of replica `index` of this worker. */
const char *rf_strategy_local_memory(const rf_strategy *strategy, uint32_t index, uint64_t *memory,
                                     uint64_t *allocation);
/* Whether `mine` is true on any worker. Collective. */
rf_result rf_strategy_any(rf_strategy *strategy, bool mine, bool *any);
/* A failure of this worker alone, at a place where the others go on: ends the job (where there are others), so that
 * they do not wait for it. Does nothing when it has failed already or result >= 0. Returns `result`. */
rf_result rf_strategy_fail_in_job(rf_strategy *strategy, rf_result result);

#endif
