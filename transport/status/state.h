/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a job at one moment, and its text. Pure: neither clocks nor connections. */
#ifndef RF_TRANSPORT_STATUS_STATE_H
#define RF_TRANSPORT_STATUS_STATE_H

#include "base/log_recent.h"
#include "transport/job/job.h"

enum { RF_STATUS_VALUES = 32, RF_STATUS_NAME = 64, RF_STATUS_PATH = 1024, RF_STATUS_SAMPLES = 16 };

/* They do not change while a job runs. */
typedef struct rf_status_worker {
    char address[RF_JOB_TEXT]; /* "": not known */
    uint32_t host;             /* workers of one host have the same number */
} rf_status_worker;
typedef struct rf_status_replica {
    char device[256];
    uint32_t rank;
} rf_status_replica;
typedef struct rf_status_members {
    uint32_t num_workers, num_replicas;
    rf_status_worker *workers;
    rf_status_replica *replicas;
} rf_status_members;

/* Counts at one moment. */
typedef struct rf_status_sample {
    double seconds;
    uint64_t steps;
    uint64_t *examples; /* [num_replicas] */
} rf_status_sample;

/* The speed between two samples. */
typedef struct rf_status_pace {
    double steps_per_second, examples_per_second; /* 0: nothing was computed */
    double *shares; /* [num_replicas]: their parts of the examples; where there were none, of all before */
} rf_status_pace;
void rf_status_pace_between(const rf_status_sample *from, const rf_status_sample *to, uint32_t num_replicas,
                            rf_status_pace *out);

/* How far the training loop has come, as it says itself. */
typedef struct rf_status_progress {
    bool known;
    uint32_t epoch, num_epochs;        /* from 0; num_epochs 0: not known */
    uint64_t batch, batches_per_epoch; /* done of the epoch; batches_per_epoch 0: not known */
    uint32_t num_values;
    struct {
        char name[RF_STATUS_NAME];
        double value;
    } values[RF_STATUS_VALUES];
} rf_status_progress;
/* Adds those of `older` whose names `progress` does not have, as far as there is room. */
void rf_status_merge_values(rf_status_progress *progress, const rf_status_progress *older);
/* Seconds until the last epoch ends at this speed; negative: not known. */
double rf_status_remaining(const rf_status_progress *progress, double steps_per_second);

typedef struct rf_status_state {
    const char *program, *host;
    int64_t process;
    double seconds, idle_seconds; /* since the job began, and since its latest step */
    uint64_t steps, examples;
    rf_status_members members;
    rf_status_pace pace;
    rf_status_progress progress;
    char checkpoint[RF_STATUS_PATH]; /* the latest; "": none */
    double checkpoint_age;           /* seconds */
    rf_log_recent warnings;
} rf_status_state;
/* One JSON object (docs/reference/wire-format.md). free(); NULL: out of memory. */
char *rf_status_text(const rf_status_state *state);

#endif
