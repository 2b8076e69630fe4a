/* SPDX-License-Identifier: Apache-2.0 */
/* ignore_errors: elements that cannot be made are left out and counted. How many are left is known when they have been
 * read. */
#include <errno.h>

#include "base/platform.h"
#include "data/pipeline.h"

/* A source that does nothing but fail must not keep its caller for ever. */
enum { MOST_IN_A_ROW = 1 << 20 };

typedef struct ignoring_step {
    atomic_uint_least64_t count;
    bool log_warning;
} ignoring_step;

/* Whether the element is to blame. A process without memory or descriptors would lose elements that are good. */
static bool blames_element(rf_result r)
{
    rf_error_info info;
    switch (r) {
    case RF_ERROR_INVALID_ARGUMENT:
    case RF_ERROR_UNSUPPORTED:
    case RF_ERROR_CORRUPT_DATA:
    case RF_ERROR_NOT_FOUND: return true;
    case RF_ERROR_IO:
        rf_error_get(&info);
        return info.native_code != EMFILE && info.native_code != ENFILE && info.native_code != ENOMEM;
    default: return false;
    }
}

static rf_result next_without_error(rf_stage *stage, const rf_element **out)
{
    ignoring_step *step = stage->dataset->data;
    for (uint32_t failures = 0;; failures++) {
        const rf_result r = rf_stage_next(stage->input, out);
        if (r >= 0 || !blames_element(r) || failures == MOST_IN_A_ROW) return r;
        atomic_fetch_add(&step->count, 1);
        if (step->log_warning) rf_log_message(RF_LOG_WARN, "an element is left out: %s", rf_error_message());
        RF_TRY(rf_stage_drop(stage->input));
    }
}

static uint64_t count_ignored(const rf_dataset *dataset)
{
    return atomic_load(&((ignoring_step *)dataset->data)->count);
}

const rf_dataset_kind rf_dataset_kind_ignore_errors = {
    .name = "ignore_errors",
    .open = rf_stage_open_in_order,
    .next = next_without_error,
    .free_dataset = rf_dataset_free_data,
    .left_out = count_ignored,
};

rf_result rf_dataset_ignore_errors(const rf_dataset *in, rf_ignore_mode mode, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_ignore_errors: out is NULL");
    *out = NULL;
    RF_REQUIRE(in, "rf_dataset_ignore_errors: in is NULL");
    RF_REQUIRE(mode == RF_IGNORE_SILENTLY || mode == RF_IGNORE_WITH_WARNING,
               "rf_dataset_ignore_errors: mode %d does not exist", (int)mode);
    for (const rf_dataset *d = in; d; d = d->input)
        RF_REQUIRE(d->kind != &rf_dataset_kind_slice,
                   "rf_dataset_ignore_errors: the dataset has been distributed, and workers would leave out different "
                   "batches; ignore errors before rf_dataset_batch()");
    RF_TRY(rf_dataset_derive_with(in, &rf_dataset_kind_ignore_errors, sizeof(ignoring_step), out));
    ignoring_step *step = (*out)->data;
    step->log_warning = mode == RF_IGNORE_WITH_WARNING;
    if (in->cardinality > 0) (*out)->cardinality = RF_CARDINALITY_UNKNOWN;
    return RF_OK;
}

uint64_t rf_dataset_ignored_errors(const rf_dataset *dataset)
{
    uint64_t count = 0;
    for (const rf_dataset *d = dataset; d; d = d->input) {
        if (d->kind->left_out) count += d->kind->left_out(d);
        for (uint32_t i = 0; i < d->num_others; i++) count += rf_dataset_ignored_errors(d->others[i]);
    }
    return count;
}

uint64_t rf_dataset_cut_elements(const rf_dataset *dataset)
{
    uint64_t count = 0;
    for (const rf_dataset *d = dataset; d; d = d->input) {
        if (d->kind->cut) count += d->kind->cut(d);
        for (uint32_t i = 0; i < d->num_others; i++) count += rf_dataset_cut_elements(d->others[i]);
    }
    return count;
}
