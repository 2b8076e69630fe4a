/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in CSV (RFC 4180): which of their columns become which arrays, and the reading of a file's bytes. */
#ifndef RF_DATA_CSV_H
#define RF_DATA_CSV_H

#include <ringfire/readers.h>

/* A column that is asked for, once for each place that it fills. */
typedef struct rf_csv_use {
    uint32_t column; /* where `name` is NULL */
    char *name;
    uint32_t component, place;
} rf_csv_use;

typedef struct rf_csv_plan {
    rf_element_spec spec;
    rf_csv_use *uses;
    uint32_t num_uses;
    char separator;
    bool header, fill_empty, skip_damaged;
    double fill_value;
} rf_csv_plan;

/* Checks `params` but for the paths. The contents of the plan are freed with rf_csv_plan_free(), also when this
 * fails. */
rf_result rf_csv_plan_make(const rf_csv_params *params, rf_csv_plan *out);
void rf_csv_plan_free(rf_csv_plan *plan);

/* Rows that `skip_damaged` leaves out. */
typedef struct rf_csv_damage {
    uint64_t rows;
    char first[256]; /* what is wrong with the first of them */
} rf_csv_damage;

/* The table of a file: arrays[spec.num_components], zero before. The caller frees them with rf_array_free(), also when
 * this fails. `path` is for messages. */
rf_result rf_csv_decode(const char *path, const void *bytes, size_t size, const rf_csv_plan *plan, rf_array *arrays,
                        rf_csv_damage *damage);

#endif
