/* SPDX-License-Identifier: Apache-2.0 */
/* A server's parameters. */
#include <string.h>

#include "base/memory.h"
#include "server/server_internal.h"

void rf_ps_shard_free(rf_ps_shard *s)
{
    if (s->store) s->fns->destroy(s->store);
    for (uint32_t p = 0; p < s->num_shares; p++) rf_free(s->shares[p].gradient);
    rf_free(s->shares);
    rf_free(s->values);
    rf_free(s->sum);
    s->store = NULL;
    s->shares = NULL;
    s->num_shares = 0;
    s->values = s->sum = NULL;
}

static rf_result shard_status(const rf_ps_shard *s)
{
    return s->failed ? rf_error_restore(&s->failure) : RF_OK;
}

rf_result rf_ps_shard_status(rf_ps_shard *s)
{
    pthread_mutex_lock(&s->lock);
    const rf_result r = shard_status(s);
    pthread_mutex_unlock(&s->lock);
    return r;
}

static rf_result read_locked(rf_ps_shard *s, uint64_t slot, float *values, uint64_t *count)
{
    RF_TRY(shard_status(s));
    *count = slot == 0 ? s->count : s->optimized;
    if (slot == 0) {
        if (s->count > 0) memcpy(values, s->values, (size_t)s->count * sizeof(float));
        return RF_OK;
    }
    const uint32_t slots = s->store ? s->fns->num_slots(s->store) : 0;
    RF_REQUIRE(slot <= slots, "slot %llu of the optimizer was asked for, which has %u here", (unsigned long long)slot,
               slots);
    return s->fns->read_slot(s->store, (uint32_t)slot - 1, values);
}

rf_result rf_ps_shard_read(rf_ps_shard *s, uint64_t slot, float *values, uint64_t *count, uint64_t *version)
{
    pthread_mutex_lock(&s->lock);
    const rf_result r = read_locked(s, slot, values, count);
    *version = s->version;
    pthread_mutex_unlock(&s->lock);
    return r;
}

static rf_result shard_apply(rf_ps_shard *s, const float *gradient)
{
    const rf_result r = s->store ? s->fns->apply(s->store, gradient, s->values) : RF_OK;
    if (r < 0) {
        s->failed = true;
        rf_error_save(&s->failure);
        return r;
    }
    for (uint64_t i = s->optimized; i < s->count; i++) s->values[i] += gradient[i];
    s->version++;
    return RF_OK;
}

static rf_result stage_gradient(rf_ps_shard *s, const rf_ps_message *push, float **gradient)
{
    RF_REQUIRE(push->step == s->version && push->version == s->version,
               "gradients of step %llu, computed from parameters of step %llu, arrived in step %llu",
               (unsigned long long)push->step, (unsigned long long)push->version, (unsigned long long)s->version);
    RF_REQUIRE(push->share < s->num_shares, "gradients of share %llu arrived, but a step has at most %u shares",
               (unsigned long long)push->share, s->num_shares);
    rf_ps_share *share = &s->shares[push->share];
    if (share->present) return RF_OK;
    float *spare = share->gradient;
    if (!spare) spare = RF_NEW_ARRAY(float, s->count);
    if (!spare) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *share = (rf_ps_share){ *gradient, push->examples, true };
    *gradient = spare;
    return RF_OK;
}

static rf_result push_locked(rf_ps_shard *s, const rf_ps_message *push, float **gradient, uint64_t *staleness)
{
    RF_TRY(shard_status(s));
    RF_REQUIRE(push->version <= s->version, "gradients of version %llu arrived, but the parameters are at version %llu",
               (unsigned long long)push->version, (unsigned long long)s->version);
    *staleness = s->version - push->version;
    return s->synchronous ? stage_gradient(s, push, gradient) : shard_apply(s, *gradient);
}

rf_result rf_ps_shard_push(rf_ps_shard *s, const rf_ps_message *push, float **gradient, uint64_t *version,
                           uint64_t *staleness)
{
    pthread_mutex_lock(&s->lock);
    const rf_result r = push_locked(s, push, gradient, staleness);
    *version = s->version;
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* In the order of the shares, whatever order they came in: the same bits each time. Changes are averaged, since
 * all shares began with the same value; beside the first one's, so that what all agree on (a counter's step) stays
 * exact. */
static void add_shares(rf_ps_shard *s, uint64_t count, uint64_t examples)
{
    const float *first = s->shares[0].gradient;
    for (uint64_t p = 0; p < count; p++) {
        const float weight = (float)((double)s->shares[p].examples / (double)examples);
        const float *g = s->shares[p].gradient;
        for (uint64_t i = 0; i < s->optimized; i++) s->sum[i] = (p > 0 ? s->sum[i] : 0) + weight * g[i];
        for (uint64_t i = s->optimized; i < s->count; i++)
            s->sum[i] = p > 0 ? s->sum[i] + weight * (g[i] - first[i]) : first[i];
    }
}

static void forget_shares(rf_ps_shard *s)
{
    for (uint32_t p = 0; p < s->num_shares; p++) s->shares[p].present = false;
}

static rf_result commit_locked(rf_ps_shard *s, uint64_t step, uint64_t count)
{
    RF_TRY(shard_status(s));
    RF_REQUIRE(s->synchronous && step == s->version, "step %llu is to be finished, but this server is at step %llu",
               (unsigned long long)step, (unsigned long long)s->version);
    RF_REQUIRE(count <= s->num_shares, "a step of %llu shares is to be finished, but a step has at most %u",
               (unsigned long long)count, s->num_shares);
    if (count == 0) { /* the step has failed */
        forget_shares(s);
        return RF_OK;
    }
    uint64_t examples = 0;
    for (uint64_t p = 0; s->count > 0 && p < count; p++) {
        RF_REQUIRE(s->shares[p].present, "share %llu of step %llu is missing", (unsigned long long)p,
                   (unsigned long long)step);
        RF_REQUIRE(s->shares[p].examples <= UINT64_MAX - examples, "share %llu of step %llu has %llu examples",
                   (unsigned long long)p, (unsigned long long)step, (unsigned long long)s->shares[p].examples);
        examples += s->shares[p].examples;
    }
    if (s->count > 0) {
        RF_REQUIRE(examples > 0, "step %llu has no examples", (unsigned long long)step);
        add_shares(s, count, examples);
    }
    forget_shares(s);
    return shard_apply(s, s->sum);
}

rf_result rf_ps_shard_commit(rf_ps_shard *s, uint64_t step, uint64_t count, uint64_t *version)
{
    pthread_mutex_lock(&s->lock);
    const rf_result r = commit_locked(s, step, count);
    *version = s->version;
    pthread_mutex_unlock(&s->lock);
    return r;
}
