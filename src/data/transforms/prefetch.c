/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefetch and parallel: threads run the stages below and keep copies of their elements in a ring of slots, from which
 * they are handed out in order.
 *
 * Over an indexed input each thread has stages of its own and makes the element of the next number that no other thread
 * has taken. An input that is read in order has one thread. A thread that has made an element waits until the ring has
 * room for it; one whose element failed waits until its turn has come, and tries it again when it is asked to.
 */
#include <pthread.h>
#include <string.h>

#include "base/platform.h"
#include "base/threads.h"
#include "data/pipeline.h"

enum { DEFAULT_BUFFER = 2, MOST_THREADS = 256, MOST_THREADS_BY_DEFAULT = 16 };

typedef struct prefetch_step {
    uint32_t num_threads; /* 0: by the processors. It is not part of a position, unlike the numbers of the dataset. */
} prefetch_step;

typedef struct prefetch_slot {
    rf_element element;
    void *memory;
    bool ready;
} prefetch_slot;

/* A thread, and the stages that it runs: those of the first are the stage's input. */
typedef struct prefetch_worker {
    rf_stage *stage, *input;
    pthread_t thread;
} prefetch_worker;

typedef struct prefetcher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t process; /* that the threads run in */
    bool running, stop;
    prefetch_worker *workers;
    uint32_t num_workers, num_started;
    prefetch_slot *slots;
    uint32_t num_slots;         /* one more than asked for: the consumer holds one */
    uint64_t claimed, consumed; /* elements that a thread has taken on; that were handed out */
    rf_result outcome;          /* of the next element where there is none: RF_END or a failure */
    bool reported;              /* the failure was, and no one has asked for the element again */
    rf_error_record failure;
} prefetcher;

static uint32_t workers_for(const rf_stage *stage)
{
    const uint64_t processors = rf_cpu_count(), elements = stage->input->count;
    uint64_t wanted = ((const prefetch_step *)stage->dataset->data)->num_threads;
    if (wanted == 0) wanted = processors < MOST_THREADS_BY_DEFAULT ? processors : MOST_THREADS_BY_DEFAULT;
    if (!stage->input->indexed || elements == 0) return 1;
    return (uint32_t)(wanted < elements ? wanted : elements);
}

static rf_result open_prefetch(rf_stage *stage)
{
    RF_TRY(rf_stage_open(stage->dataset->input, stage->epoch, &stage->input));
    prefetcher *p = stage->data = RF_NEW(prefetcher);
    if (!p) return RF_ERROR_OUT_OF_HOST_MEMORY;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    const uint32_t num_workers = workers_for(stage);
    const rf_element_spec *spec = &stage->dataset->spec;
    p->workers = RF_NEW_ARRAY(prefetch_worker, num_workers);
    p->slots = RF_NEW_ARRAY(prefetch_slot, stage->dataset->count + 1);
    if (!p->workers || !p->slots) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (; p->num_workers < num_workers; p->num_workers++) p->workers[p->num_workers].stage = stage;
    p->workers[0].input = stage->input;
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
    for (uint32_t i = 0; i < p->num_started; i++) pthread_join(p->workers[i].thread, NULL);
    for (uint32_t i = 1; i < p->num_workers; i++) rf_stage_close(&p->workers[i].input);
    for (uint32_t i = 0; i < p->num_slots; i++) rf_free(p->slots[i].memory);
    rf_free(p->workers);
    rf_free(p->slots);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    rf_free(p);
}

/* ---- the threads ---- */

static rf_result make_element(const prefetch_worker *w, uint64_t number, const rf_element **out)
{
    if (!w->input->indexed) return rf_stage_next(w->input, out);
    return number < w->input->count ? w->input->dataset->kind->get(w->input, number, out) : RF_END;
}

/* Waits until the ring has room for element `number`. False: the iterator ends. */
static bool wait_for_room(prefetcher *p, uint64_t number)
{
    pthread_mutex_lock(&p->lock);
    while (!p->stop && number - p->consumed >= p->num_slots - 1) pthread_cond_wait(&p->changed, &p->lock);
    const bool stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return !stop;
}

static void put_element(prefetcher *p, uint64_t number, const rf_element *in)
{
    prefetch_slot *slot = &p->slots[number % p->num_slots];
    rf_element_copy(&slot->element, in); /* no one else looks at this slot before it is ready */
    pthread_mutex_lock(&p->lock);
    slot->ready = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Reports that there is no element `number` when its turn has come. True: it was asked for again, or dropped. */
static bool report_outcome(prefetcher *p, uint64_t number, rf_result r)
{
    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->consumed != number) pthread_cond_wait(&p->changed, &p->lock);
    if (!p->stop) {
        p->outcome = r;
        if (r < 0) rf_error_save(&p->failure);
        pthread_cond_broadcast(&p->changed);
    }
    while (!p->stop && r < 0 && p->outcome < 0 && p->consumed == number) pthread_cond_wait(&p->changed, &p->lock);
    const bool again = !p->stop && r < 0;
    pthread_mutex_unlock(&p->lock);
    return again;
}

/* `mine`: the element that this thread took on, if it is still wanted. */
static uint64_t claim_element(prefetcher *p, uint64_t mine)
{
    pthread_mutex_lock(&p->lock);
    const uint64_t number = mine >= p->consumed && mine != UINT64_MAX ? mine : p->claimed++;
    pthread_mutex_unlock(&p->lock);
    return number;
}

static void *run_worker(void *argument)
{
    prefetch_worker *w = argument;
    prefetcher *p = w->stage->data;
    uint64_t failed = UINT64_MAX;
    if (!w->input && rf_stage_open(w->stage->dataset->input, w->stage->epoch, &w->input) < 0) return NULL;
    for (;;) {
        const rf_element *in;
        const uint64_t number = claim_element(p, failed);
        const rf_result r = make_element(w, number, &in);
        failed = UINT64_MAX;
        if (r == RF_OK) {
            if (!wait_for_room(p, number)) return NULL;
            put_element(p, number, in);
        } else {
            if (!report_outcome(p, number, r)) return NULL;
            failed = number;
        }
    }
}

/* The threads start with the first element that is wanted. The first has to, and has its stages; all others, which open
 * theirs themselves, only make it faster. */
static rf_result start_workers(rf_stage *stage)
{
    prefetcher *p = stage->data;
    p->claimed = p->consumed = stage->input->position;
    int error = 0;
    while (!error && p->num_started < p->num_workers) {
        prefetch_worker *w = &p->workers[p->num_started];
        error = pthread_create(&w->thread, NULL, run_worker, w);
        if (!error) p->num_started++;
    }
    if (p->num_started == 0)
        return RF_FAIL_NATIVE(RF_ERROR_OUT_OF_HOST_MEMORY, "errno", error, "prefetch: cannot start a thread");
    p->running = true;
    p->process = rf_process_id();
    return RF_OK;
}

/* ---- the consumer ---- */

/* Under the lock: lets the thread whose element failed go on, with the same one or, where that was dropped, another. */
static void clear_failure(prefetcher *p)
{
    if (!p->reported) return;
    p->reported = false;
    p->outcome = RF_OK;
    pthread_cond_broadcast(&p->changed);
}

static rf_result next_prefetched(rf_stage *stage, const rf_element **out)
{
    prefetcher *p = stage->data;
    if (!p->running) RF_TRY(start_workers(stage));
    RF_TRY(rf_process_check(p->process, "the iterator"));
    pthread_mutex_lock(&p->lock);
    clear_failure(p);
    prefetch_slot *slot = &p->slots[p->consumed % p->num_slots];
    while (!slot->ready && p->outcome == RF_OK) pthread_cond_wait(&p->changed, &p->lock);
    rf_result r = RF_OK;
    if (slot->ready) {
        /* The slot given out stays untouched: the ring has one more slot than elements in flight. */
        *out = &slot->element;
        slot->ready = false;
        p->consumed++;
        pthread_cond_broadcast(&p->changed);
    } else {
        r = p->outcome < 0 ? rf_error_restore(&p->failure) : p->outcome;
        p->reported = r < 0;
    }
    pthread_mutex_unlock(&p->lock);
    return r;
}

/* The way to a saved position is the input's, as long as no thread reads it. */
static rf_result pass_over_prefetched(rf_stage *stage)
{
    const prefetcher *p = stage->data;
    const rf_element *unused;
    return p->running ? next_prefetched(stage, &unused) : rf_stage_pass_over(stage->input);
}

/* The only thread of an input that is read in order waits, and leaves the input alone meanwhile. */
static rf_result drop_prefetched(rf_stage *stage)
{
    prefetcher *p = stage->data;
    if (!p->reported || !stage->input->indexed) RF_TRY(rf_stage_drop(stage->input));
    pthread_mutex_lock(&p->lock);
    if (p->reported && stage->input->indexed) p->consumed++;
    clear_failure(p);
    pthread_mutex_unlock(&p->lock);
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_prefetch = {
    .name = "prefetch",
    .open = open_prefetch,
    .close = close_prefetch,
    .next = next_prefetched,
    .pass_over = pass_over_prefetched,
    .drop = drop_prefetched,
    .free_dataset = rf_dataset_free_data,
    .opens_own_input = true,
};

static rf_result derive_prefetch(const rf_dataset *in, uint32_t buffer_size, uint32_t num_threads, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive_with(in, &rf_dataset_kind_prefetch, sizeof(prefetch_step), out));
    (*out)->count = buffer_size ? buffer_size : DEFAULT_BUFFER;
    ((prefetch_step *)(*out)->data)->num_threads = num_threads;
    return RF_OK;
}

rf_result rf_dataset_prefetch(const rf_dataset *in, uint32_t buffer_size, rf_dataset **out)
{
    return derive_prefetch(in, buffer_size, 1, out);
}

rf_result rf_dataset_parallel(const rf_dataset *in, uint32_t num_threads, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_parallel: out is NULL");
    *out = NULL;
    RF_REQUIRE(in, "rf_dataset_parallel: the input dataset is NULL");
    RF_REQUIRE(num_threads <= MOST_THREADS,
               "rf_dataset_parallel: %u threads; give at most %d, or 0 for as many as "
               "there are processors",
               num_threads, MOST_THREADS);
    return derive_prefetch(in, 0, num_threads, out);
}
