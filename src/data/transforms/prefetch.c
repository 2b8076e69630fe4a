/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch: a thread runs the stages below and keeps copies of their elements in a ring of slots. */
#include <pthread.h>
#include <string.h>

#include "base/platform.h"
#include "data/pipeline.h"

typedef struct prefetch_slot {
    rf_element element;
    void *memory;
} prefetch_slot;

typedef struct prefetcher {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t process; /* that the thread runs in */
    bool running, stop;
    prefetch_slot *slots;
    uint32_t num_slots; /* one more than asked for: the consumer holds one */
    uint64_t produced, consumed;
    rf_result outcome; /* RF_OK while elements come, else why they stopped coming */
    rf_error_record failure;
} prefetcher;

static rf_result open_prefetch(rf_stage *stage)
{
    RF_TRY(rf_stage_open(stage->dataset->input, stage->epoch, &stage->input));
    prefetcher *p = stage->data = RF_NEW(prefetcher);
    if (!p) return RF_ERROR_OUT_OF_HOST_MEMORY;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    const rf_element_spec *spec = &stage->dataset->spec;
    p->slots = RF_NEW_ARRAY(prefetch_slot, stage->dataset->count + 1);
    if (!p->slots) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (; p->num_slots <= stage->dataset->count; p->num_slots++) {
        prefetch_slot *slot = &p->slots[p->num_slots];
        slot->memory = rf_aligned_calloc(rf_element_bytes(spec));
        if (!slot->memory) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "prefetch");
        rf_element_place(&slot->element, spec, slot->memory);
    }
    return RF_OK;
}

static void close_prefetch(rf_stage *stage)
{
    prefetcher *p = stage->data;
    if (!p || (p->running && p->process != rf_process_id())) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->running) pthread_join(p->thread, NULL);
    for (uint32_t i = 0; i < p->num_slots; i++) rf_free(p->slots[i].memory);
    rf_free(p->slots);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    rf_free(p);
}

static void *run_thread(void *argument)
{
    rf_stage *stage = argument;
    prefetcher *p = stage->data;
    rf_result r = RF_OK;
    while (r == RF_OK) {
        const rf_element *in;
        r = rf_stage_next(stage->input, &in);
        pthread_mutex_lock(&p->lock);
        while (!p->stop && p->produced - p->consumed >= stage->dataset->count) pthread_cond_wait(&p->changed, &p->lock);
        const bool stop = p->stop;
        prefetch_slot *slot = &p->slots[p->produced % p->num_slots];
        pthread_mutex_unlock(&p->lock);
        if (stop) return NULL;
        if (r == RF_OK)
            rf_element_copy(&slot->element, in); /* no one else looks at this slot before `produced` moves */
        pthread_mutex_lock(&p->lock);
        if (r == RF_OK) p->produced++;
        p->outcome = r;
        if (r < 0) rf_error_save(&p->failure);
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* The thread starts with the first element that is wanted, and anew after a failure, where it left off. */
static rf_result start_thread(rf_stage *stage)
{
    prefetcher *p = stage->data;
    p->outcome = RF_OK;
    const int error = pthread_create(&p->thread, NULL, run_thread, stage);
    if (error) return RF_FAIL_NATIVE(RF_ERROR_OUT_OF_HOST_MEMORY, "errno", error, "prefetch: cannot start a thread");
    p->running = true;
    p->process = rf_process_id();
    return RF_OK;
}

static rf_result next_prefetched(rf_stage *stage, const rf_element **out)
{
    prefetcher *p = stage->data;
    if (!p->running) RF_TRY(start_thread(stage));
    RF_TRY(rf_process_check(p->process, "the iterator"));
    pthread_mutex_lock(&p->lock);
    while (p->produced == p->consumed && p->outcome == RF_OK) pthread_cond_wait(&p->changed, &p->lock);
    rf_result r = RF_OK;
    if (p->produced == p->consumed) {
        r = p->outcome < 0 ? rf_error_restore(&p->failure) : p->outcome;
    } else {
        /* The slot given out stays untouched: the ring has one more slot than elements in flight. */
        *out = &p->slots[p->consumed++ % p->num_slots].element;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    if (r < 0) {
        pthread_join(p->thread, NULL); /* it ends with the failure that it reports */
        p->running = false;
    }
    return r;
}

/* The way to a saved position is the input's, as long as no thread reads it. */
static rf_result pass_over_prefetched(rf_stage *stage)
{
    const prefetcher *p = stage->data;
    const rf_element *unused;
    return p->running ? next_prefetched(stage, &unused) : rf_stage_pass_over(stage->input);
}

const rf_dataset_kind rf_dataset_kind_prefetch = {
    .name = "prefetch",
    .open = open_prefetch,
    .close = close_prefetch,
    .next = next_prefetched,
    .pass_over = pass_over_prefetched,
    .opens_own_input = true,
};

rf_result rf_dataset_prefetch(const rf_dataset *in, uint32_t buffer_size, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_prefetch, out));
    (*out)->count = buffer_size ? buffer_size : 2;
    return RF_OK;
}
