/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of a job agree on this when a strategy is created (whose replicas are which, and limits that suit all of
 * them), and what they check about each other later. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "replica/agree.h"

#define VARIABLE_ALIGNMENT 1024           /* bytes, at least: blocks of states in few bits (base/state_form.h) */
#define MAX_ALIGNMENT (UINT64_C(1) << 20) /* of a device's buffers, bytes; Vulkan allows them 256 */
#define DEFAULT_CHECK_INTERVAL 100

void rf_agree_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    rf_error_one_line(text);
}

/* ---- strategies ---- */

static rf_result check_same(uint32_t rank, const char *what, uint64_t first, uint64_t other)
{
    RF_REQUIRE(other == first, "rank 0 and rank %u have different %s (%llu and %llu); start all workers with the same",
               rank, what, (unsigned long long)first, (unsigned long long)other);
    return RF_OK;
}

rf_result rf_agree_settings(rf_world *w, const rf_settings *all)
{
    for (uint32_t r = 0; r < w->size; r++)
        RF_REQUIRE(all[r].num_local >= 1 && all[r].num_local <= RF_MAX_LOCAL_REPLICAS,
                   "rank %u has %u replicas; a worker has 1 to %d", r, all[r].num_local, RF_MAX_LOCAL_REPLICAS);
    for (uint32_t r = 1; r < w->size; r++) {
        RF_TRY(check_same(r, "update modes", all[0].update_mode, all[r].update_mode));
        RF_TRY(check_same(r, "bucket_bytes", all[0].bucket_elements * sizeof(float),
                          all[r].bucket_elements * sizeof(float)));
        RF_TRY(check_same(r, "balance", all[0].balance, all[r].balance));
        RF_REQUIRE(all[r].overlap == all[0].overlap,
                   "rank %u exchanges gradients after the backward pass, rank %u during it; start all workers with the "
                   "same no_overlap and RINGFIRE_OVERLAP",
                   all[r].overlap ? 0 : r, all[r].overlap ? r : 0);
        RF_REQUIRE(all[r].compression == all[0].compression && all[r].top_k_share == all[0].top_k_share,
                   "rank 0 and rank %u have different compression (%u with top_k_share %g, and %u with %g); start all "
                   "workers with the same",
                   r, all[0].compression, all[0].top_k_share, all[r].compression, all[r].top_k_share);
        RF_TRY(check_same(r, "check_interval", all[0].check_interval, all[r].check_interval));
    }
    w->first[0] = 0;
    for (uint32_t r = 0; r < w->size; r++) w->first[r + 1] = w->first[r] + all[r].num_local;
    return RF_OK;
}

static rf_result number_replicas(rf_strategy *s, const rf_mirrored_params *p)
{
    rf_world *w = &s->members.world;
    s->update_mode = p->update_mode;
    s->exchange.bucket_elements = rf_div_up(p->bucket_bytes, sizeof(float));
    s->exchange.overlap =
        !p->no_overlap && !(rf_env("RINGFIRE_OVERLAP") && strcmp(rf_env("RINGFIRE_OVERLAP"), "0") == 0);
    s->health.check_interval = p->check_interval ? p->check_interval : DEFAULT_CHECK_INTERVAL;
    rf_settings *all = RF_NEW_ARRAY(rf_settings, w->size);
    if (!all) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_settings mine = { .num_local = s->members.num_local, /* no padding stands between or behind the fields */
                               .update_mode = (uint32_t)s->update_mode,
                               .check_interval = s->health.check_interval,
                               .overlap = s->exchange.overlap,
                               .balance = (uint32_t)p->balance,
                               .compression = (uint32_t)s->exchange.compression.kind,
                               .top_k_share = s->exchange.compression.share,
                               .bucket_elements = s->exchange.bucket_elements };
    rf_result r = rf_world_gather(w, "settings of the strategy", &mine, all, sizeof(mine));
    if (r >= 0) r = rf_agree_settings(w, all);
    rf_free(all);
    RF_TRY(r);
    s->members.first = w->first[w->rank];
    s->members.num_replicas = w->first[w->size];
    return RF_OK;
}

static void make_offers(const rf_strategy *s, const rf_mirrored_params *p, rf_offer *offers)
{
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        const rf_device_info *info = rf_gpu_info(s->members.replicas[r].device);
        const rf_device_caps *caps = rf_gpu_caps(s->members.replicas[r].device);
        rf_offer *o = &offers[r];
        memcpy(o->identity.name, info->name, sizeof(o->identity.name));
        memcpy(o->identity.driver_name, info->driver_name, sizeof(o->identity.driver_name));
        o->identity.driver_version = info->driver_version;
        o->alignment = 2 * caps->buffer_alignment; /* also of variables' shadows in 16 bits */
        o->range = caps->max_storage_range;
        o->has_share = p->shares != NULL;
        o->share = p->shares ? p->shares[r] : 1;
    }
}

/* Limits that suit all replicas: layouts are the same everywhere. */
static rf_result agree_on_limits(rf_strategy *s, const rf_offer *offers)
{
    uint64_t alignment = VARIABLE_ALIGNMENT, range = UINT64_MAX;
    for (uint32_t r = 0; r < s->members.num_replicas; r++) {
        const uint64_t wanted = offers[r].alignment;
        RF_REQUIRE(wanted > 0 && wanted <= MAX_ALIGNMENT && (wanted & (wanted - 1)) == 0,
                   "replica %u of rank %u has a buffer alignment of %llu", r, rf_world_rank_of(&s->members.world, r),
                   (unsigned long long)wanted);
        if (wanted > alignment) alignment = wanted;
        if (offers[r].range < range) range = offers[r].range;
    }
    s->store.alignment = alignment / sizeof(float);
    s->store.max_segment = range / alignment * s->store.alignment;
    if (s->store.max_segment == 0) s->store.max_segment = s->store.alignment;
    return RF_OK;
}

/* A worker without shares of its own gives each of its replicas 1. */
static rf_result agree_on_shares(rf_strategy *s, const rf_offer *offers)
{
    bool any = false;
    double total = 0;
    for (uint32_t r = 0; r < s->members.num_replicas; r++) {
        any |= offers[r].has_share != 0;
        RF_REQUIRE(isfinite(offers[r].share) && offers[r].share >= 0, "share %u must be a finite number, 0 or more", r);
        total += offers[r].share;
    }
    RF_REQUIRE(total > 0 && isfinite(total), "the shares must have a positive, finite sum");
    if (!any) return RF_OK;
    s->members.shares = RF_NEW_ARRAY(double, s->members.num_replicas);
    if (!s->members.shares) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < s->members.num_replicas; r++) s->members.shares[r] = offers[r].share;
    return RF_OK;
}

/* Local updates are only identical where every device computes the same bits. */
static rf_result check_same_driver(const rf_strategy *s)
{
    const rf_replica_identity *first = &s->members.identities[0];
    for (uint32_t r = 1; s->update_mode == RF_UPDATE_LOCAL && r < s->members.num_replicas; r++) {
        const rf_replica_identity *other = &s->members.identities[r];
        RF_REQUIRE(strcmp(first->name, other->name) == 0 && strcmp(first->driver_name, other->driver_name) == 0 &&
                       first->driver_version == other->driver_version,
                   "RF_UPDATE_LOCAL needs one kind of device and driver, but replica 0 is %s (driver version "
                   "0x%x) and replica %u of rank %u is %s (0x%x); use RF_UPDATE_SHARDED",
                   first->name, first->driver_version, r, rf_world_rank_of(&s->members.world, r), other->name,
                   other->driver_version);
    }
    return RF_OK;
}

rf_result rf_agree_offers(rf_strategy *s, const rf_offer *offers)
{
    for (uint32_t r = 0; r < s->members.num_replicas; r++) {
        s->members.identities[r] = offers[r].identity;
        rf_agree_text(s->members.identities[r].name, sizeof(s->members.identities[r].name));
        rf_agree_text(s->members.identities[r].driver_name, sizeof(s->members.identities[r].driver_name));
    }
    RF_TRY(agree_on_limits(s, offers));
    RF_TRY(agree_on_shares(s, offers));
    return check_same_driver(s);
}

rf_result rf_strategy_agree(rf_strategy *s, const rf_mirrored_params *p)
{
    RF_TRY(number_replicas(s, p));
    s->members.identities = RF_NEW_ARRAY(rf_replica_identity, s->members.num_replicas);
    rf_offer *mine = RF_NEW_ARRAY(rf_offer, s->members.num_local),
             *all = RF_NEW_ARRAY(rf_offer, s->members.num_replicas);
    rf_result r = s->members.identities && mine && all ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        make_offers(s, p, mine);
        r = rf_world_gather_replicas(&s->members.world, "devices of the strategy", mine, all, sizeof(rf_offer));
    }
    if (r >= 0) r = rf_agree_offers(s, all);
    if (r >= 0) r = rf_strategy_fail_in_job(s, rf_balancing_create(s, p->balance));
    rf_free(mine);
    rf_free(all);
    return r;
}

/* ---- steps ---- */

static rf_result check_same_step(const rf_world *w, rf_step_report *all)
{
    for (uint32_t r = 0; r < w->size; r++) rf_agree_text(all[r].function, sizeof(all[r].function));
    for (uint32_t r = 1; r < w->size; r++) {
        RF_REQUIRE(
            strcmp(all[r].function, all[0].function) == 0 && all[r].number == all[0].number &&
                all[r].examples == all[0].examples,
            "rank 0 runs '%s' (run %llu, %llu examples) but rank %u '%s' (run %llu, %llu examples); every rank must "
            "run the same functions with the same global batches",
            all[0].function, (unsigned long long)all[0].number, (unsigned long long)all[0].examples, r, all[r].function,
            (unsigned long long)all[r].number, (unsigned long long)all[r].examples);
    }
    return RF_OK;
}

static rf_result check_seeds(const rf_world *w, const rf_step_report *all)
{
    for (uint32_t r = 1; r < w->size; r++)
        RF_REQUIRE(all[r].seed == all[0].seed,
                   "'%s' draws random numbers, on rank 0 from seed %llu and on rank %u from seed %llu; give "
                   "rf_strategy_set_seed() the same one on all ranks",
                   all[0].function, (unsigned long long)all[0].seed, r, (unsigned long long)all[r].seed);
    return RF_OK;
}

/* The workers' rows are the whole batch, in order, without gaps: then it does not matter who holds how many. */
static rf_result check_rows(const rf_world *w, const rf_step_report *all)
{
    uint64_t at = 0;
    for (uint32_t r = 0; r < w->size; r++) {
        RF_REQUIRE(
            all[r].first_row == at,
            "rank %u holds %llu rows of the batch from row %llu on, but the ranks before it end at row %llu; give "
            "all of them the same batch, or datasets of rf_strategy_distribute_dataset()",
            r, (unsigned long long)all[r].rows, (unsigned long long)all[r].first_row, (unsigned long long)at);
        RF_REQUIRE(all[r].rows <= all[0].examples - at, "rank %u holds %llu rows of a batch of %llu from row %llu on",
                   r, (unsigned long long)all[r].rows, (unsigned long long)all[0].examples, (unsigned long long)at);
        at += all[r].rows;
    }
    RF_REQUIRE(at == all[0].examples, "all ranks together hold %llu rows of a batch of %llu", (unsigned long long)at,
               (unsigned long long)all[0].examples);
    return RF_OK;
}

rf_result rf_agree_step(const rf_world *w, rf_step_report *all)
{
    RF_TRY(check_same_step(w, all));
    RF_TRY(check_seeds(w, all));
    return check_rows(w, all);
}

/* ---- what steps update with ---- */

#define SETTING_SIZE 160 /* of a line, as messages show it */

/* The line at `at`, which moves behind it. False where the text has ended. */
static bool take_line(const char *text, uint64_t size, uint64_t *at, char line[SETTING_SIZE])
{
    const uint64_t begin = *at;
    if (begin >= size) {
        snprintf(line, SETTING_SIZE, "no more");
        return false;
    }
    while (*at < size && text[*at] != '\n') ++*at;
    const uint64_t length = *at - begin < SETTING_SIZE ? *at - begin : SETTING_SIZE - 1;
    memcpy(line, text + begin, length);
    line[length] = '\0';
    rf_agree_text(line, SETTING_SIZE);
    ++*at;
    return true;
}

rf_result rf_agree_settings_differ(const rf_world *w, const char *texts, const uint64_t *sizes)
{
    const char *other = texts;
    for (uint32_t r = 1; r < w->size; r++) {
        char a[SETTING_SIZE], b[SETTING_SIZE];
        uint64_t at = 0, there = 0;
        other += sizes[r - 1];
        for (bool more = true; more;) {
            more = take_line(texts, sizes[0], &at, a);
            more |= take_line(other, sizes[r], &there, b);
            RF_REQUIRE(strcmp(a, b) == 0,
                       "rank 0 updates with %s, but rank %u with %s; create the same optimizers on all workers, change "
                       "their settings alike, and train the same variables",
                       a, r, b);
        }
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "the workers' optimizers differ");
}

/* ---- values that are gathered ---- */

rf_result rf_agree_rows(const rf_world *w, const char *name, uint64_t row, uint64_t *rows, uint64_t *total)
{
    const uint64_t most = row > 0 ? SIZE_MAX / row : SIZE_MAX;
    *total = 0;
    for (uint32_t r = 0; r < w->size; r++) {
        RF_REQUIRE(rows[r] <= most - *total && rows[r] <= INT64_MAX - *total,
                   "'%s' has %llu rows of %llu bytes on rank %u, which together are more than any memory holds", name,
                   (unsigned long long)rows[r], (unsigned long long)row, r);
        *total += rows[r];
        rows[r] *= row;
    }
    return RF_OK;
}
