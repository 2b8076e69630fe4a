/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of strategies: device choice, opening, and the wait for everything in flight. */
#include <math.h>
#include <string.h>

#include "base/platform.h"
#include "replica/device_select.h"
#include "replica/internal.h"

#define DEFAULT_BUCKET_BYTES (4ull << 20)
#define VARIABLE_ALIGNMENT 256 /* bytes, at least: whole cache lines and vectors on every device */

/* ---- lifetime ---- */

rf_strategy *rf_strategy_retain(rf_strategy *strategy)
{
    strategy->references++;
    return strategy;
}

static void free_store(const rf_strategy *s, rf_store *store)
{
    rf_flat_free(s, &store->values);
    rf_free(store->variables.items);
}

void rf_strategy_release(rf_strategy *s)
{
    if (!s || --s->references > 0) return;
    free_store(s, &s->trainable);
    free_store(s, &s->fixed);
    rf_flat_free(s, &s->gradients);
    rf_flat_free(s, &s->download);
    rf_flat_free(s, &s->upload);
    rf_exchange_destroy(&s->exchange);
    for (uint32_t r = 0; s->replicas && r < s->num_replicas; r++) {
        rf_exec_destroy(&s->replicas[r].exec);
        rf_gpu_device_close(&s->replicas[r].device);
    }
    rf_gpu_destroy(&s->gpu);
    rf_free(s->replicas);
    rf_free(s->shares);
    rf_free(s);
}

RF_API void rf_strategy_destroy(rf_strategy **strategy)
{
    if (!strategy || !*strategy) return;
    (void)rf_strategy_wait(*strategy); /* a lost device cannot be waited for; closing it is all that is left */
    rf_strategy_release(*strategy);
    *strategy = NULL;
}

/* ---- waiting and submitting ---- */

rf_result rf_strategy_status(rf_strategy *s)
{
    return s->failed ? rf_error_restore(&s->failure) : RF_OK;
}

rf_result rf_strategy_stick(rf_strategy *s, rf_result result)
{
    if (result < 0 && !s->failed) {
        s->failed = true;
        rf_error_save(&s->failure);
    }
    return result;
}

rf_result rf_strategy_wait_replica(rf_strategy *s, uint32_t replica)
{
    const rf_replica *at = &s->replicas[replica];
    if (at->ticket == 0) return RF_OK;
    const rf_result r = rf_gpu_wait(at->device, at->ticket, RF_GPU_TIMEOUT_NS);
    if (r >= 0) return RF_OK;
    rf_error_context(r, "replica %u (%s)", replica, rf_gpu_info(at->device)->name);
    return rf_strategy_stick(s, r);
}

rf_result rf_strategy_wait(rf_strategy *s)
{
    rf_result first = RF_OK;
    rf_error_record record;
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        const rf_result result = rf_strategy_wait_replica(s, r);
        if (result >= 0 || first < 0) continue;
        first = result;
        rf_error_save(&record);
    }
    return first < 0 ? rf_error_restore(&record) : RF_OK;
}

RF_API rf_result rf_strategy_synchronize(rf_strategy *strategy)
{
    RF_REQUIRE(strategy, "rf_strategy_synchronize: strategy is NULL");
    RF_TRY(rf_strategy_wait(strategy));
    return rf_strategy_status(strategy);
}

rf_result rf_replica_submit_frames(rf_replica *replica, rf_frame *const *frames, uint32_t count)
{
    return count > 0 ? rf_frames_submit(replica->exec, frames, count, &replica->ticket) : RF_OK;
}

rf_result rf_replica_submit_recordings(rf_replica *replica, rf_gpu_recording *const *recs, uint32_t count)
{
    return count > 0 ? rf_gpu_submit(replica->device, recs, count, &replica->ticket) : RF_OK;
}

/* ---- creation ---- */

static rf_result list_devices(rf_gpu *gpu, rf_device_info **infos, uint32_t *count)
{
    *infos = NULL;
    *count = 0;
    RF_TRY(rf_gpu_list(gpu, NULL, count));
    *infos = RF_NEW_ARRAY(rf_device_info, *count);
    if (!*infos) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t listed = *count;
    RF_TRY(rf_gpu_list(gpu, *infos, &listed));
    if (listed < *count) *count = listed;
    return RF_OK;
}

static rf_result open_replica(rf_strategy *s, rf_replica *replica, uint32_t index, const rf_device_options *options,
                              const char *cache)
{
    const rf_gpu_device_params device = { .index = index,
                                          .clamp_limits = options->clamp_limits,
                                          .cache_directory = cache };
    RF_TRY(rf_gpu_device_open(s->gpu, &device, &replica->device));
    const rf_exec_params exec = { .device = replica->device, .cache_directory = cache };
    RF_TRY(rf_exec_create(&exec, &replica->exec));
    replica->staged = !rf_gpu_caps(replica->device)->host_visible;
    return RF_OK;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* What all replicas can live with: layouts are the same everywhere. */
static void agree_on_limits(rf_strategy *s)
{
    uint64_t alignment = VARIABLE_ALIGNMENT, range = UINT64_MAX;
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        const rf_device_caps *caps = rf_gpu_caps(s->replicas[r].device);
        alignment = alignment / greatest_common_divisor(alignment, caps->buffer_alignment) * caps->buffer_alignment;
        if (caps->max_storage_range < range) range = caps->max_storage_range;
    }
    s->alignment = alignment / sizeof(float);
    s->max_piece = range / alignment * s->alignment;
    if (s->max_piece == 0) s->max_piece = s->alignment;
}

static rf_result open_replicas(rf_strategy *s, const uint32_t *indices, uint32_t count,
                               const rf_device_options *options)
{
    s->replicas = RF_NEW_ARRAY(rf_replica, count);
    if (!s->replicas) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->num_replicas = count;
    char *cache = options->no_cache ? NULL : rf_cache_directory(options->cache_directory);
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < count; i++) r = open_replica(s, &s->replicas[i], indices[i], options, cache);
    rf_free(cache);
    RF_TRY(r);
    agree_on_limits(s);
    return rf_local_exchange_create(count, &s->exchange);
}

static rf_result create_gpu(const rf_device_options *options, rf_strategy **out)
{
    rf_strategy *s = RF_NEW(rf_strategy);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->references = 1;
    s->generation = 1;
    /* Traces of other strategies should not be taken for this one's: start anywhere. */
    s->trace_serial = (uint32_t)((uintptr_t)s >> 4) * 2654435761u;
    s->bucket_elements = DEFAULT_BUCKET_BYTES / sizeof(float);
    s->trainable.values.name = "variables";
    s->fixed.values.name = "fixed variables";
    s->gradients.name = "gradients";
    s->download.name = "download";
    s->upload.name = "upload";
    *out = s;
    const char *validation = rf_env("RINGFIRE_VALIDATION");
    const rf_gpu_params params = { .validation = options->validation || (validation && strcmp(validation, "0") != 0) };
    return rf_gpu_create(&params, &s->gpu);
}

static rf_result check_shares(const rf_strategy *s, const double *shares, uint32_t num_shares)
{
    RF_REQUIRE(shares || num_shares == 0, "rf_strategy_create_mirrored: num_shares is %u but shares is NULL",
               num_shares);
    if (!shares) return RF_OK;
    RF_REQUIRE(num_shares == s->num_replicas,
               "rf_strategy_create_mirrored: %u shares for %u replicas; give one share per replica", num_shares,
               s->num_replicas);
    double total = 0;
    for (uint32_t r = 0; r < num_shares; r++) {
        RF_REQUIRE(isfinite(shares[r]) && shares[r] >= 0,
                   "rf_strategy_create_mirrored: share %u is not a finite number of at least 0", r);
        total += shares[r];
    }
    RF_REQUIRE(total > 0 && isfinite(total), "rf_strategy_create_mirrored: the shares add up to nothing to divide by");
    return RF_OK;
}

/* Local updates are only identical where every device computes the same bits. */
static rf_result check_same_driver(const rf_strategy *s)
{
    const rf_device_info *first = rf_gpu_info(s->replicas[0].device);
    for (uint32_t r = 1; r < s->num_replicas; r++) {
        const rf_device_info *info = rf_gpu_info(s->replicas[r].device);
        RF_REQUIRE(
            strcmp(first->name, info->name) == 0 && strcmp(first->driver_name, info->driver_name) == 0 &&
                first->driver_version == info->driver_version,
            "rf_strategy_create_mirrored: RF_UPDATE_LOCAL needs one kind of device, but replica 0 is %s and replica "
            "%u is %s; use RF_UPDATE_SHARDED",
            first->name, r, info->name);
    }
    return RF_OK;
}

static rf_result create_mirrored(const rf_mirrored_params *p, rf_strategy **out)
{
    RF_REQUIRE(p->update_mode == RF_UPDATE_SHARDED || p->update_mode == RF_UPDATE_LOCAL,
               "rf_strategy_create_mirrored: update_mode %d does not exist", (int)p->update_mode);
    RF_TRY(create_gpu(&p->device, out));
    rf_strategy *s = *out;
    rf_device_info *infos;
    uint32_t num_infos, *indices = NULL, count = 0;
    rf_result r = list_devices(s->gpu, &infos, &num_infos);
    if (r >= 0)
        r = rf_device_select(p->devices ? p->devices : rf_env("RINGFIRE_DEVICES"), infos, num_infos, &indices, &count);
    rf_free(infos);
    if (r >= 0) r = open_replicas(s, indices, count, &p->device);
    rf_free(indices);
    RF_TRY(r);
    RF_TRY(check_shares(s, p->shares, p->num_shares));
    s->update_mode = p->update_mode;
    if (s->update_mode == RF_UPDATE_LOCAL) RF_TRY(check_same_driver(s));
    if (p->bucket_bytes) s->bucket_elements = rf_div_up(p->bucket_bytes, sizeof(float));
    if (!p->shares) return RF_OK;
    s->shares = RF_NEW_ARRAY(double, count);
    if (!s->shares) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(s->shares, p->shares, count * sizeof(double));
    return RF_OK;
}

RF_API rf_result rf_strategy_create_mirrored(const rf_mirrored_params *params, rf_strategy **out)
{
    RF_REQUIRE(out, "rf_strategy_create_mirrored: out is NULL");
    *out = NULL;
    static const rf_mirrored_params defaults = { 0 };
    rf_strategy *s = NULL;
    const rf_result r = create_mirrored(params ? params : &defaults, &s);
    if (r < 0) {
        rf_strategy_release(s);
        return r;
    }
    *out = s;
    return RF_OK;
}

/* The first entry of a list, as a new string. */
static char *first_entry(const char *list)
{
    char *entry = rf_strdup(list);
    if (entry) entry[strcspn(entry, ",")] = '\0';
    return entry;
}

static rf_result create_one_device(const rf_one_device_params *p, rf_strategy **out)
{
    RF_REQUIRE(!p->device || !strchr(p->device, ','),
               "rf_strategy_create_one_device: device '%s' is a list; name one, or use rf_strategy_create_mirrored()",
               p->device);
    RF_TRY(create_gpu(&p->options, out));
    const char *wanted = p->device ? p->device : rf_env("RINGFIRE_DEVICES");
    char *entry = NULL;
    if (wanted) {
        entry = first_entry(wanted);
        if (!entry) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    rf_device_info *infos;
    uint32_t num_infos, index = 0;
    rf_result r = list_devices((*out)->gpu, &infos, &num_infos);
    if (r >= 0) r = rf_device_select_one(entry, infos, num_infos, &index);
    rf_free(infos);
    rf_free(entry);
    return r < 0 ? r : open_replicas(*out, &index, 1, &p->options);
}

RF_API rf_result rf_strategy_create_one_device(const rf_one_device_params *params, rf_strategy **out)
{
    RF_REQUIRE(out, "rf_strategy_create_one_device: out is NULL");
    *out = NULL;
    static const rf_one_device_params defaults = { 0 };
    rf_strategy *s = NULL;
    const rf_result r = create_one_device(params ? params : &defaults, &s);
    if (r < 0) {
        rf_strategy_release(s);
        return r;
    }
    *out = s;
    return RF_OK;
}

/* ---- questions ---- */

RF_API uint32_t rf_strategy_num_replicas_in_sync(const rf_strategy *strategy)
{
    return strategy ? strategy->num_replicas : 0;
}

RF_API const char *rf_strategy_device_name(const rf_strategy *strategy, uint32_t replica)
{
    if (!strategy || replica >= strategy->num_replicas) return "";
    return rf_gpu_info(strategy->replicas[replica].device)->name;
}

RF_API uint64_t rf_strategy_validation_messages(const rf_strategy *strategy)
{
    return strategy ? rf_gpu_validation_messages(strategy->gpu, NULL) : 0;
}

RF_API void rf_strategy_set_seed(rf_strategy *strategy, uint64_t seed)
{
    if (strategy) strategy->seed = seed;
}
