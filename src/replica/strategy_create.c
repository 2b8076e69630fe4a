/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of strategies: device choice, opening; and their end. */
#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "base/platform.h"
#include "replica/internal.h"
#include "replica/store/copying.h"
#include "replica/store/flat.h"

#define DEFAULT_TOP_K_SHARE 0.01

/* ---- lifetime ---- */

#define FLAT(member, title)                                                                                            \
    {                                                                                                                  \
        offsetof(rf_strategy, member), title                                                                           \
    }
static const struct {
    size_t at;
    const char *name;
} flats[] = {
    FLAT(store.trainable.values, "variables"),
    FLAT(store.fixed.values, "fixed variables"),
    FLAT(store.aside.values, "frozen variables"),
    FLAT(store.gradients, "gradients"),
    FLAT(store.weight_copies.values, "shadows of variables"),
    FLAT(exchange.trained.down, "download"),
    FLAT(exchange.trained.up, "upload"),
    FLAT(store.assigned, "assigned values"),
    FLAT(exchange.fixed.down, "download of assigned values"),
    FLAT(exchange.fixed.up, "upload of assigned values"),
    FLAT(store.summands, "summands"),
    FLAT(store.sums, "sums over replicas"),
    FLAT(exchange.summed.down, "download of summands"),
    FLAT(exchange.summed.up, "upload of sums"),
};

static rf_flat *flat_of(rf_strategy *s, uint32_t i)
{
    return (rf_flat *)(void *)((char *)s + flats[i].at);
}

void rf_strategy_release(rf_strategy *s)
{
    if (!s || --s->references > 0 || rf_strategy_is_foreign(s)) return;
    rf_strategy_close_status(s);
    rf_free(s->status.key_file);
    rf_imported_memory_free(s);
    for (uint32_t i = 0; i < sizeof(flats) / sizeof(flats[0]); i++) rf_flat_free(s, flat_of(s, i));
    rf_quantize_rules_clear(&s->store.quantize);
    rf_free(s->store.trainable.variables.items);
    rf_free(s->store.fixed.variables.items);
    rf_free(s->store.aside.variables.items);
    rf_exchange_free(&s->exchange.between);
    rf_balancing_free(s);
    for (uint32_t r = 0; s->members.replicas && r < s->members.num_local; r++) {
        rf_exec_destroy(&s->members.replicas[r].exec);
        rf_gpu_device_close(&s->members.replicas[r].device);
    }
    rf_gpu_destroy(&s->gpu);
    rf_free(s->members.replicas);
    rf_free(s->members.identities);
    rf_free(s->members.shares);
    rf_world_free(&s->members.world);
    rf_copying_free(&s->store.copying);
    rf_free(s);
}

RF_API void rf_strategy_destroy(rf_strategy **strategy)
{
    if (!strategy || !*strategy) return;
    (void)rf_strategy_wait(*strategy); /* a lost device cannot be waited for; closing it is all that is left */
    rf_strategy_close_status(*strategy);
    /* Children keep the rest. They may never be destroyed, and a process that ends before it has said goodbye is a lost
     * worker to those that are still busy. */
    if ((*strategy)->references > 1) rf_world_leave(&(*strategy)->members.world);
    rf_strategy_release(*strategy);
    *strategy = NULL;
}

/* ---- creation ---- */

static rf_result open_replica(rf_strategy *s, rf_replica *replica, uint32_t index, const rf_device_options *options,
                              const rf_cache *cache)
{
    const rf_gpu_device_params device = { .index = index,
                                          .clamp_limits = options->clamp_limits,
                                          .shares_cpus = s->members.shares_cpus,
                                          .cache_directory = cache->directory,
                                          .cache_read_only = cache->read_only };
    RF_TRY(rf_gpu_device_open(s->gpu, &device, &replica->device));
    const rf_exec_params exec = { .device = replica->device,
                                  .cache_directory = cache->directory,
                                  .cache_read_only = cache->read_only };
    RF_TRY(rf_exec_create(&exec, &replica->exec));
    replica->staged = !rf_gpu_caps(replica->device)->host_visible;
    return RF_OK;
}

static rf_result open_replicas(rf_strategy *s, const uint32_t *indices, uint32_t count,
                               const rf_device_options *options)
{
    s->members.replicas = RF_NEW_ARRAY(rf_replica, count);
    if (!s->members.replicas) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->members.num_local = count;
    rf_cache cache = { 0 };
    rf_result r = options->no_cache ? RF_OK : rf_cache_open(options->cache_directory, false, &cache);
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        r = open_replica(s, &s->members.replicas[i], indices[i], options, &cache);
    rf_free(cache.directory);
    return r;
}

rf_strategy *rf_strategy_allocate(void)
{
    rf_strategy *s = RF_NEW(rf_strategy);
    if (!s) return NULL;
    if (rf_copying_init(&s->store.copying) < 0) {
        rf_free(s);
        return NULL;
    }
    s->references = 1;
    s->process = rf_process_id();
    s->store.generation = 1;
    /* Start at a different number in each strategy, so that its traces are not mistaken for another strategy's. */
    s->trace_serial = (uint32_t)((uintptr_t)s >> 4) * 2654435761u;
    s->exchange.imported.arrays.name = "imported memory";
    for (uint32_t i = 0; i < sizeof(flats) / sizeof(flats[0]); i++) flat_of(s, i)->name = flats[i].name;
    const char *perturb = rf_env("RINGFIRE_TEST_PERTURB");
    s->health.perturbed = perturb ? (uint32_t)strtoul(perturb, NULL, 10) : UINT32_MAX;
    return s;
}

/* Different devices among these that compute on the host's processors. */
static uint32_t count_software(const rf_device_info *infos, const uint32_t *indices, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool counts = infos[indices[i]].type == RF_DEVICE_TYPE_CPU;
        for (uint32_t k = 0; k < i; k++) counts = counts && indices[k] != indices[i];
        found += counts;
    }
    return found;
}

/* `one`: the devices that are named must be one. */
static rf_result open_devices(rf_strategy *s, const rf_mirrored_params *p, bool one)
{
    RF_REQUIRE(p->update_mode == RF_UPDATE_SHARDED || p->update_mode == RF_UPDATE_LOCAL,
               "update_mode %d does not exist", (int)p->update_mode);
    RF_REQUIRE(p->balance == RF_BALANCE_OFF || p->balance == RF_BALANCE_AUTO, "balance %d does not exist",
               (int)p->balance);
    RF_REQUIRE(p->shares || p->num_shares == 0, "num_shares is %u but shares is NULL", p->num_shares);
    RF_TRY(rf_gpu_create(&(rf_gpu_params){ .validation = p->device.validation }, &s->gpu));
    rf_device_info *infos;
    uint32_t num_infos, *indices, count, index;
    if (one) {
        RF_TRY(rf_gpu_choose_one(s->gpu, p->devices, &index));
        return open_replicas(s, &index, 1, &p->device);
    }
    rf_result r = rf_gpu_choose(s->gpu, p->devices, &infos, &num_infos, &indices, &count);
    if (r >= 0) {
        s->members.shares_cpus =
            rf_comm_local_size(s->members.world.comm) > 1 || count_software(infos, indices, count) > 1;
        r = open_replicas(s, indices, count, &p->device);
    }
    rf_free(infos);
    rf_free(indices);
    RF_TRY(r);
    RF_REQUIRE(!p->shares || p->num_shares == count, "%u shares for %u replicas; give one share per replica",
               p->num_shares, count);
    return RF_OK;
}

static const rf_exchange_compression uncompressed = { RF_COMPRESSION_NONE, 0 };

static rf_result choose_compression(const rf_multi_worker_params *p, rf_exchange_compression *out)
{
    RF_REQUIRE(p->compression >= RF_COMPRESSION_NONE && p->compression <= RF_COMPRESSION_TOP_K,
               "compression %d does not exist", (int)p->compression);
    RF_REQUIRE(p->top_k_share >= 0 && p->top_k_share <= 1,
               "top_k_share is %g; it is a part of all, above 0 and up to 1", p->top_k_share);
    RF_REFUSE_ZERO(p->top_k_share, "top_k_share", "nothing would be exchanged; 0 stands for 0.01");
    RF_REQUIRE(p->top_k_share == 0 || p->compression == RF_COMPRESSION_TOP_K,
               "top_k_share is set, but compression is not RF_COMPRESSION_TOP_K");
    *out = (rf_exchange_compression){ .kind = p->compression, .share = p->top_k_share };
    if (p->compression == RF_COMPRESSION_TOP_K && p->top_k_share == 0) out->share = DEFAULT_TOP_K_SHARE;
    return RF_OK;
}

RF_API rf_result rf_compression_parse(const char *text, rf_compression *kind, double *share)
{
    static const char *const names[] = { "none", "f16", "bf16", "top-k" }; /* by rf_compression */
    RF_REQUIRE(text && kind && share, "rf_compression_parse: an argument is NULL");
    const size_t length = strcspn(text, "=");
    int32_t found = RF_COMPRESSION_TOP_K;
    while (found >= 0 && (strlen(names[found]) != length || strncmp(text, names[found], length) != 0)) found--;
    RF_REQUIRE(found >= 0, "compression '%s' does not exist; use none, f16, bf16 or top-k", text);
    char *end = NULL;
    const double given = text[length] ? rf_number_parse(text + length + 1, &end) : 0;
    RF_REQUIRE(!end || (found == RF_COMPRESSION_TOP_K && *end == '\0' && given > 0 && given <= 1),
               "compression '%s': only top-k takes a share, above 0 and up to 1", text);
    *kind = (rf_compression)found;
    *share = given;
    return RF_OK;
}

/* `comm` (NULL: none) belongs to the strategy from here on. */
static rf_result set_up(rf_strategy *s, const rf_mirrored_params *p, bool one, const rf_comm_params *job, rf_comm *comm)
{
    rf_result r = rf_world_create(comm, &s->members.world);
    if (r >= 0) r = open_devices(s, p, one);
    RF_TRY(rf_strategy_fail_in_job(s, r));
    RF_TRY(rf_strategy_agree(s, p));
    RF_TRY(rf_exchange_init(&s->members.world, s->members.num_local, s->exchange.compression, &s->exchange.between));
    return job ? rf_strategy_fail_in_job(s, rf_strategy_keep_key(s, job)) : RF_OK;
}

/* A strategy that failed to come up is given back. `function` is for the message. */
static rf_result create_strategy(const char *function, const rf_mirrored_params *p, bool one,
                                 rf_exchange_compression compression, const rf_comm_params *job, rf_comm *comm,
                                 rf_strategy **out)
{
    rf_strategy *s = rf_strategy_allocate();
    if (!s) {
        rf_comm_destroy(&comm);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    s->exchange.compression = compression;
    const rf_result r = set_up(s, p, one, job, comm);
    if (r >= 0)
        *out = s;
    else
        rf_strategy_release(s);
    return rf_error_context(r, "%s", function);
}

RF_API rf_result rf_strategy_create_mirrored(const rf_mirrored_params *params, rf_strategy **out)
{
    RF_REQUIRE(out, "rf_strategy_create_mirrored: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_mirrored_params, params));
    return create_strategy(__func__, params ? params : &(rf_mirrored_params){ 0 }, false, uncompressed, NULL, NULL,
                           out);
}

RF_API rf_result rf_strategy_create_multi_worker(const rf_multi_worker_params *params, rf_strategy **out)
{
    RF_REQUIRE(out, "rf_strategy_create_multi_worker: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_multi_worker_params, params));
    static const rf_multi_worker_params defaults = { 0 };
    if (!params) params = &defaults;
    rf_exchange_compression compression;
    rf_comm *comm;
    RF_TRY(rf_error_context(choose_compression(params, &compression), "rf_strategy_create_multi_worker"));
    /* The job comes before the devices: a worker that cannot open its devices can then tell the others. */
    RF_TRY(rf_comm_create(&params->comm, &comm));
    return create_strategy(__func__, &params->mirrored, false, compression, &params->comm, comm, out);
}

RF_API rf_result rf_strategy_create_central_storage(const rf_central_storage_params *params, rf_strategy **out)
{
    RF_REQUIRE(out, "rf_strategy_create_central_storage: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_central_storage_params, params));
    const rf_mirrored_params mirrored = params ? params->mirrored : (rf_mirrored_params){ 0 };
    RF_REQUIRE(mirrored.update_mode == RF_UPDATE_SHARDED,
               "rf_strategy_create_central_storage: update_mode must not be set; the first device makes all updates");
    RF_TRY(create_strategy(__func__, &mirrored, false, uncompressed, NULL, NULL, out));
    (*out)->central = true;
    return RF_OK;
}

RF_API rf_result rf_strategy_create_one_device(const rf_one_device_params *params, rf_strategy **out)
{
    RF_REQUIRE(out, "rf_strategy_create_one_device: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_one_device_params, params));
    rf_mirrored_params mirrored = { 0 };
    if (params) mirrored = (rf_mirrored_params){ .devices = params->device, .device = params->options };
    return create_strategy(__func__, &mirrored, true, uncompressed, NULL, NULL, out);
}
