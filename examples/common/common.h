/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that the example trainers share: their options, the table of devices, the error line. */
#ifndef EXAMPLE_COMMON_H
#define EXAMPLE_COMMON_H

#include <argp.h>
#include <stdio.h>

#include <ringfire/ringfire.h>

#include "progress.h"

/* Leaves the function with -1 after saying what failed; for functions that return int. */
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        if ((expression) < 0) {                                                                                        \
            example_report_failure();                                                                                  \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)
void example_report_failure(void); /* "program: message" on stderr */

/* printf on the chief alone: the workers of a job share a terminal as a rule. */
void example_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef enum example_strategy {
    STRATEGY_MIRRORED, /* over the devices of all workers */
    STRATEGY_CENTRAL_STORAGE,
    STRATEGY_ONE_DEVICE,
    STRATEGY_PARAMETER_SERVER /* see servers.h */
} example_strategy;

typedef struct example_options {
    const char *devices, *data;
    uint32_t epochs, batch_size; /* batch_size is per replica */
    uint64_t seed;
    double learning_rate;
    uint64_t limit;             /* use only the first examples of the training set; 0: all */
    const char *logdir;         /* for TensorBoard's event files; NULL: none */
    const char *checkpoint_dir; /* NULL: none */
    bool sharded_checkpoints;   /* every worker writes its part of them */
    uint64_t save_every;        /* batches, after which example_add_callbacks() makes one; 0: after each epoch */
    example_strategy strategy;
    bool balance;               /* shares follow the measured speed */
    rf_compression compression; /* of gradients between workers */
    double top_k_share;
    bool synchronous;             /* of parameter servers */
    rf_device_cache device_cache; /* of the training set */
    rf_dtype mixed;               /* f16 or bf16: what layers compute with; 0: f32 */
} example_options;
/* Options -d --devices, -D --data, -e --epochs, -b --batch-size, -s --seed, -r --learning-rate, -n --limit, -l
 * --logdir, -c --checkpoint-dir, -P --sharded-checkpoints, -B --balance, -S --synchronous, -m --mixed, -k
 * --device-cache: those whose
 * letters `letters` holds ("dDebsrn" for all), and with B also -C --compression and -y --strategy. Fields keep what
 * they hold where an option is not given. Exits after --help or a wrong option, as argp does. */
void example_parse(int argc, char **argv, const char *purpose, const char *letters, example_options *options);
/* With options of the example's own besides, and its own arguments where `own` has an args_doc: it gets `own_input` as
 * its input. batch_size stays 0 where it is not
 * given and was 0 before, so that it may depend on them. */
void example_parse_with(int argc, char **argv, const char *purpose, const char *letters, example_options *options,
                        const struct argp *own, void *own_input);
/* A number from 1 to `most`; for anything else the program ends with an error, as with a wrong option. */
uint64_t example_parse_count(struct argp_state *state, const char *text, uint64_t most);
/* "f32", "bf16" or "8bit". */
rf_optimizer_state_type example_parse_state_type(struct argp_state *state, const char *text);
double example_parse_rate(struct argp_state *state, const char *text); /* the same for a learning rate */

/* For the optimizer: gradients in f16 need it, others do not. */
const rf_loss_scale_params *example_loss_scale(const example_options *options);

/* The strategy that was chosen, on options->devices of this worker; mirrored ones are over the workers of the job that
 * the environment describes, the others are refused in a job of several. With parameter servers it is that of one task,
 * which signals end. Prints one line per replica and "Number of
 * devices: N". From here on SIGTERM, SIGUSR1 and SIGINT ask for a stop, which all workers agree on; a second SIGINT
 * ends the program at once. */
int example_create_strategy(const example_options *options, rf_strategy **strategy);
/* Functions return this in tasks of a cluster with parameter servers that have done their part when the chief has ended
 * the job. example_create_strategy() is where a server does its part. */
enum { SERVED = 2 };
/* Says why there can be no parameter servers and returns -1. */
int example_refuse_servers(const char *why);
void example_destroy_strategy(rf_strategy **strategy);
/* Functions return this that ended early because of a request, with a checkpoint to go on from. */
enum { STOPPED = 1 };
int example_stopped(void); /* says so and returns that */
/* The same where `r` is that of a call which a request has ended early; -1 after saying what failed; else 0. */
int example_outcome(rf_result r);
/* The program's exit status: `result` is that of the program. RF_EXIT_RESTARTABLE when it was STOPPED or failed because
 * another worker was lost. */
int example_exit_status(int result);

/* Sequential model of `layers` for 28 x 28 images. `made` says whether making all of them worked; they belong to the
 * model or are destroyed, whatever happens. */
int example_create_model(rf_strategy *strategy, int made, rf_layer **layers, uint32_t num_layers, rf_model **model);

/* Training and test set of (image f32 [28,28,1] in [0,1], label i32 from 0 to 9), not yet batched. */
int example_load_images(const example_options *options, rf_dataset **train, rf_dataset **test);

/* Adds callbacks to `callbacks`, of which there are *count: backups in options->checkpoint_dir, which stay when
 * training has ended, and events in options->logdir. Each is there only where its folder was given. */
int example_add_callbacks(const example_options *options, rf_callback **callbacks, uint32_t *count);

/* Says what is wrong and returns -1 when a loss is infinite or NaN. `epoch` and `step` count from 1, 0: not
 * known. */
int example_check_loss(double loss, uint64_t epoch, uint64_t step);

/* In a step whose batch is one example, which holds all that there is: this example, without the batch's dimension. A
 * variable that the step assigns can have its shape, which does not depend on the batch. */
rf_tensor example_alone(rf_trace *t, rf_tensor batch);

/* A batched dataset becomes what this worker of the job reads of it. */
int example_distribute(rf_strategy *strategy, rf_dataset **data);

#endif
