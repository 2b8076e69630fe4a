/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a job settle when a strategy is created: whose replicas are which, and what all can live with. */
#include <math.h>
#include <string.h>

#include "base/platform.h"
#include "replica/internal.h"

#define VARIABLE_ALIGNMENT 256 /* bytes, at least: whole cache lines and vectors on every device */
#define DEFAULT_CHECK_INTERVAL 100

/* Must be the same everywhere. */
typedef struct settings {
    uint32_t num_local; /* this may differ */
    uint32_t update_mode;
    uint32_t check_interval;
    uint32_t overlap;
    uint32_t balance;
    uint64_t bucket_elements;
} settings;

/* Of one replica. */
typedef struct offer {
    rf_replica_identity identity;
    uint64_t alignment, range; /* bytes */
    double share;
    uint32_t has_share;
} offer;

static rf_result check_settings(const rf_world *w, const settings *all)
{
    for (uint32_t r = 1; r < w->size; r++) {
        RF_REQUIRE(all[r].update_mode == all[0].update_mode,
                   "rank 0 and rank %u have different update modes (%u and %u); start all workers with the same", r,
                   all[0].update_mode, all[r].update_mode);
        RF_REQUIRE(all[r].bucket_elements == all[0].bucket_elements,
                   "rank 0 and rank %u have different bucket_bytes (%llu and %llu); start all workers with the "
                   "same",
                   r, (unsigned long long)(all[0].bucket_elements * sizeof(float)),
                   (unsigned long long)(all[r].bucket_elements * sizeof(float)));
        RF_REQUIRE(all[r].balance == all[0].balance,
                   "rank 0 and rank %u have different balance (%u and %u); start all workers with the same", r,
                   all[0].balance, all[r].balance);
        RF_REQUIRE(all[r].overlap == all[0].overlap,
                   "rank %u exchanges gradients after the backward pass, rank %u during it; start all workers with the "
                   "same no_overlap and RINGFIRE_OVERLAP",
                   all[r].overlap ? 0 : r, all[r].overlap ? r : 0);
        RF_REQUIRE(all[r].check_interval == all[0].check_interval,
                   "rank 0 and rank %u have different check_interval (%u and %u); start all workers with the "
                   "same",
                   r, all[0].check_interval, all[r].check_interval);
    }
    return RF_OK;
}

static rf_result number_replicas(rf_strategy *s, const rf_mirrored_params *p)
{
    rf_world *w = &s->world;
    s->update_mode = p->update_mode;
    s->bucket_elements = rf_div_up(p->bucket_bytes, sizeof(float));
    s->overlap = !p->no_overlap && !(rf_env("RINGFIRE_OVERLAP") && strcmp(rf_env("RINGFIRE_OVERLAP"), "0") == 0);
    s->check_interval = p->check_interval ? p->check_interval : DEFAULT_CHECK_INTERVAL;
    settings mine, *all = RF_NEW_ARRAY(settings, w->size);
    if (!all) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memset(&mine, 0, sizeof(mine)); /* padding travels too */
    mine.num_local = s->num_local;
    mine.update_mode = (uint32_t)s->update_mode;
    mine.check_interval = s->check_interval;
    mine.overlap = s->overlap;
    mine.balance = (uint32_t)p->balance;
    mine.bucket_elements = s->bucket_elements;
    rf_result r = rf_world_gather(w, "settings of the strategy", &mine, all, sizeof(mine));
    if (r >= 0) r = check_settings(w, all);
    for (uint32_t k = 0; r >= 0 && k < w->size; k++) w->first[k + 1] = w->first[k] + all[k].num_local;
    rf_free(all);
    RF_TRY(r);
    s->first = w->first[w->rank];
    s->num_replicas = w->first[w->size];
    return RF_OK;
}

static void make_offers(const rf_strategy *s, const rf_mirrored_params *p, offer *offers)
{
    for (uint32_t r = 0; r < s->num_local; r++) {
        const rf_device_info *info = rf_gpu_info(s->replicas[r].device);
        const rf_device_caps *caps = rf_gpu_caps(s->replicas[r].device);
        offer *o = &offers[r];
        memcpy(o->identity.name, info->name, sizeof(o->identity.name));
        memcpy(o->identity.driver_name, info->driver_name, sizeof(o->identity.driver_name));
        o->identity.driver_version = info->driver_version;
        o->alignment = caps->buffer_alignment;
        o->range = caps->max_storage_range;
        o->has_share = p->shares != NULL;
        o->share = p->shares ? p->shares[r] : 1;
    }
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
static rf_result agree_on_limits(rf_strategy *s, const offer *offers)
{
    uint64_t alignment = VARIABLE_ALIGNMENT, range = UINT64_MAX;
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        RF_REQUIRE(offers[r].alignment > 0, "replica %u of rank %u has no buffer alignment", r,
                   rf_world_rank_of(&s->world, r));
        alignment = alignment / greatest_common_divisor(alignment, offers[r].alignment) * offers[r].alignment;
        if (offers[r].range < range) range = offers[r].range;
    }
    s->alignment = alignment / sizeof(float);
    s->max_piece = range / alignment * s->alignment;
    if (s->max_piece == 0) s->max_piece = s->alignment;
    return RF_OK;
}

/* A worker without shares of its own gives each of its replicas 1. */
static rf_result agree_on_shares(rf_strategy *s, const offer *offers)
{
    bool any = false;
    double total = 0;
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        any |= offers[r].has_share != 0;
        RF_REQUIRE(isfinite(offers[r].share) && offers[r].share >= 0, "share %u is not a finite number of at least 0",
                   r);
        total += offers[r].share;
    }
    RF_REQUIRE(total > 0 && isfinite(total), "the shares add up to nothing to divide by");
    if (!any) return RF_OK;
    s->shares = RF_NEW_ARRAY(double, s->num_replicas);
    if (!s->shares) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < s->num_replicas; r++) s->shares[r] = offers[r].share;
    return RF_OK;
}

/* Local updates are only identical where every device computes the same bits. */
static rf_result check_same_driver(const rf_strategy *s)
{
    const rf_replica_identity *first = &s->identities[0];
    for (uint32_t r = 1; s->update_mode == RF_UPDATE_LOCAL && r < s->num_replicas; r++) {
        const rf_replica_identity *other = &s->identities[r];
        RF_REQUIRE(strcmp(first->name, other->name) == 0 && strcmp(first->driver_name, other->driver_name) == 0 &&
                       first->driver_version == other->driver_version,
                   "RF_UPDATE_LOCAL needs one kind of device and driver, but replica 0 is %s (driver version "
                   "0x%x) and replica %u of rank %u is %s (0x%x); use RF_UPDATE_SHARDED",
                   first->name, first->driver_version, r, rf_world_rank_of(&s->world, r), other->name,
                   other->driver_version);
    }
    return RF_OK;
}

static rf_result take_offers(rf_strategy *s, offer *offers)
{
    for (uint32_t r = 0; r < s->num_replicas; r++) {
        s->identities[r] = offers[r].identity;
        /* They come from elsewhere: always terminated. */
        s->identities[r].name[sizeof(s->identities[r].name) - 1] = '\0';
        s->identities[r].driver_name[sizeof(s->identities[r].driver_name) - 1] = '\0';
    }
    RF_TRY(agree_on_limits(s, offers));
    RF_TRY(agree_on_shares(s, offers));
    return check_same_driver(s);
}

rf_result rf_strategy_agree(rf_strategy *s, const rf_mirrored_params *p)
{
    RF_TRY(number_replicas(s, p));
    s->identities = RF_NEW_ARRAY(rf_replica_identity, s->num_replicas);
    offer *mine = RF_NEW_ARRAY(offer, s->num_local), *all = RF_NEW_ARRAY(offer, s->num_replicas);
    rf_result r = s->identities && mine && all ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        make_offers(s, p, mine);
        r = rf_world_gather_replicas(&s->world, "devices of the strategy", mine, all, sizeof(offer));
    }
    if (r >= 0) r = take_offers(s, all);
    if (r >= 0) r = rf_strategy_stick_if_alone(s, rf_balancing_create(s, p->balance));
    rf_free(mine);
    rf_free(all);
    return r;
}
