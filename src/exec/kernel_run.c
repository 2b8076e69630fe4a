/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One op alone on the device. All tensors and the workspace are placed in the slab with guard zones between them:
 *   guard | in 0 | guard | in 1 | guard | out 0 | guard | workspace | guard
 * A host image of that range is uploaded before and read back after the run. To be timed it runs many times more, where
 * sets of operands take turns with as many copies of that range, one behind the other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "exec/internal.h"

#define GUARD_BYTES 4096
#define POISON 0xff /* words of 0xffffffff: NaN as f32, -1 as i32 */

typedef struct kernel_image {
    rf_exec *exec;
    rf_kernel_run *run;
    rf_node_plan plan;
    rf_recorder recorder;
    rf_span in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS], workspace;
    unsigned char *bytes;
    uint64_t size;
    uint32_t num_sets; /* that the slab holds */
} kernel_image;

/* The first segment, which holds the image and as many copies of it as there are. */
static rf_gpu_buffer *slab_of(const kernel_image *image)
{
    return rf_exec_slab_span(image->exec, 0, 0).buffer;
}

static rf_span image_reserve(kernel_image *image, uint64_t size)
{
    const rf_span span = { .offset = image->size, .size = size };
    image->size = rf_align_up(image->size + rf_align_up(size, 4) + GUARD_BYTES, image->exec->caps.buffer_alignment);
    return span;
}

static rf_result lay_out(kernel_image *image)
{
    const rf_op_call *call = image->run->call;
    image->size = rf_align_up(GUARD_BYTES, image->exec->caps.buffer_alignment);
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!(call->op->shape_only >> i & 1)) image->in[i] = image_reserve(image, rf_tensor_bytes(&call->in[i]));
    for (uint32_t i = 0; i < call->n_out; i++) {
        if (i == 0 && image->run->inplace_input)
            image->out[0] = image->in[image->run->inplace_input - 1];
        else
            image->out[i] = image_reserve(image, rf_tensor_bytes(&call->out[i]));
    }
    image->workspace = image_reserve(image, image->plan.plan.workspace);
    image->size = rf_align_up(image->size, image->exec->caps.buffer_alignment);
    image->num_sets = 1;
    if (image->size > image->exec->segment_size)
        return RF_FAIL(RF_ERROR_OUT_OF_DEVICE_MEMORY,
                       "the operands take %" PRIu64 " bytes together, and the device allocates no more than %" PRIu64
                       " at once",
                       image->size, image->exec->segment_size);
    RF_TRY(rf_exec_reserve_slab(image->exec, image->size));
    image->bytes = rf_aligned_calloc((size_t)image->size);
    return image->bytes ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result image_upload(kernel_image *image)
{
    const rf_op_call *call = image->run->call;
    if (image->run->guard) memset(image->bytes, POISON, (size_t)image->size);
    for (uint32_t i = 0; i < call->n_in; i++)
        if (image->in[i].size) memcpy(image->bytes + image->in[i].offset, image->run->in[i], (size_t)image->in[i].size);
    return rf_gpu_buffer_write(slab_of(image), 0, image->bytes, image->size);
}

/* Records the kernel on a set of operands. */
static rf_result record_set(kernel_image *image, uint32_t set)
{
    rf_span in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS], workspace = image->workspace;
    memcpy(in, image->in, sizeof(in));
    memcpy(out, image->out, sizeof(out));
    const uint64_t shift = image->size * set;
    for (uint32_t i = 0; i < RF_MAX_INPUTS; i++) in[i].offset += shift, in[i].buffer = slab_of(image);
    for (uint32_t i = 0; i < RF_MAX_OUTPUTS; i++) out[i].offset += shift, out[i].buffer = slab_of(image);
    workspace.offset += shift;
    workspace.buffer = slab_of(image);
    return rf_record_node(&image->recorder, &image->plan, in, out, workspace);
}

/* Runs that are recorded and timed together. */
typedef struct batch {
    rf_clock clock;
    uint32_t runs, sets;
    bool overlapped; /* a barrier follows only when the sets have had their turn */
} batch;

static rf_result image_stamp(kernel_image *image, const batch *b)
{
    uint32_t index;
    return b->clock == RF_CLOCK_DEVICE ? rf_gpu_record_timestamp(image->recorder.rec, &index) : RF_OK;
}

static void drop_recording(kernel_image *image)
{
    rf_gpu_recording_destroy(&image->recorder.rec);
    rf_hazards_clear(&image->recorder.hazards);
}

static rf_result image_record(kernel_image *image, const batch *b)
{
    drop_recording(image);
    RF_TRY(rf_gpu_recording_begin(image->exec->device, image->run->kernel->name, &image->recorder.rec));
    RF_TRY(image_stamp(image, b));
    for (uint32_t i = 0; i < b->runs; i++) {
        RF_TRY(record_set(image, i % b->sets));
        if (!b->overlapped || (i + 1) % b->sets == 0) rf_record_barrier(&image->recorder);
    }
    RF_TRY(image_stamp(image, b));
    return rf_gpu_recording_end(image->recorder.rec);
}

static uint64_t host_ns(rf_clock clock)
{
    return clock == RF_CLOCK_PROCESSOR ? rf_processor_ns() : rf_now_ns();
}

/* Seconds of one run. */
static rf_result image_execute(kernel_image *image, const batch *b, double *seconds)
{
    rf_exec *exec = image->exec;
    const uint64_t start = host_ns(b->clock);
    RF_TRY(rf_gpu_submit(exec->device, &image->recorder.rec, 1, &exec->last_ticket));
    RF_TRY(rf_gpu_wait(exec->device, exec->last_ticket, RF_GPU_TIMEOUT_NS));
    uint64_t ns[2] = { 0, host_ns(b->clock) - start };
    if (b->clock == RF_CLOCK_DEVICE) RF_TRY(rf_gpu_recording_timestamps(image->recorder.rec, ns, 2));
    /* Less than the clock's step is not nothing. */
    const double all = (double)(ns[1] > ns[0] ? ns[1] - ns[0] : 1) * 1e-9;
    rf_warmth_add(&exec->warmth, rf_now_ns(), all);
    *seconds = all / b->runs;
    return RF_OK;
}

/* Everything between `from` and the start of the next tensor must still be poison. */
static rf_result check_gap(const kernel_image *image, uint64_t from, uint64_t to, const char *after)
{
    for (uint64_t i = from; i < to; i++)
        if (image->bytes[i] != POISON)
            return RF_FAIL(RF_ERROR_INTERNAL, "%s (kernel %s) wrote outside its tensors: %" PRIu64 " bytes behind %s",
                           image->run->call->op->name, image->run->kernel->name, i - from, after);
    return RF_OK;
}

static rf_result check_unchanged(const kernel_image *image, uint32_t input)
{
    const rf_op_call *call = image->run->call;
    if ((call->op->mutates >> input & 1) || image->run->inplace_input == input + 1) return RF_OK;
    if (memcmp(image->bytes + image->in[input].offset, image->run->in[input], (size_t)image->in[input].size) == 0)
        return RF_OK;
    return RF_FAIL(RF_ERROR_INTERNAL, "%s (kernel %s) wrote to input %u, which it only may read", call->op->name,
                   image->run->kernel->name, input);
}

static rf_result check_guards(const kernel_image *image)
{
    const rf_op_call *call = image->run->call;
    uint64_t end = 0; /* of what has been seen; tensors stand in order of their offsets */
    char name[32] = "the start";
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (!image->in[i].size) continue;
        RF_TRY(check_gap(image, end, image->in[i].offset, name));
        RF_TRY(check_unchanged(image, i));
        end = rf_align_up(image->in[i].offset + image->in[i].size, 4);
        snprintf(name, sizeof(name), "input %u", i);
    }
    for (uint32_t i = 0; i < call->n_out; i++) {
        if (i == 0 && image->run->inplace_input) continue;
        RF_TRY(check_gap(image, end, image->out[i].offset, name));
        end = rf_align_up(image->out[i].offset + image->out[i].size, 4);
        snprintf(name, sizeof(name), "output %u", i);
    }
    RF_TRY(check_gap(image, end, image->workspace.offset, name));
    return check_gap(image, rf_align_up(image->workspace.offset + image->workspace.size, 4), image->size,
                     "the workspace");
}

static rf_result check_counters(const kernel_image *image)
{
    const rf_span *counters = &image->plan.counters;
    if (counters->size == 0) return RF_OK;
    unsigned char *bytes = rf_aligned_calloc((size_t)counters->size);
    if (!bytes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_gpu_buffer_read(counters->buffer, counters->offset, bytes, counters->size);
    for (uint64_t i = 0; r >= 0 && i < counters->size; i++)
        if (bytes[i] != 0)
            r = RF_FAIL(RF_ERROR_INTERNAL, "%s (kernel %s) left counter %" PRIu64 " other than zero",
                        image->run->call->op->name, image->run->kernel->name, i / 4);
    rf_free(bytes);
    return r;
}

static rf_result image_download(kernel_image *image)
{
    const rf_op_call *call = image->run->call;
    RF_TRY(rf_gpu_buffer_read(slab_of(image), 0, image->bytes, image->size));
    for (uint32_t i = 0; i < call->n_out; i++)
        memcpy(image->run->out[i], image->bytes + image->out[i].offset, (size_t)image->out[i].size);
    if (image->run->guard) RF_TRY(check_guards(image));
    if (image->run->guard) RF_TRY(check_counters(image));
    for (uint32_t i = 0; i < call->n_in; i++)
        if (call->op->mutates >> i & 1)
            memcpy(image->run->in[i], image->bytes + image->in[i].offset, (size_t)image->in[i].size);
    return RF_OK;
}

/* ---- timing ---- */

/* Fills the slab with so many sets of operands. */
static rf_result make_sets(kernel_image *image, uint32_t sets)
{
    if (sets <= image->num_sets) return RF_OK;
    drop_recording(image); /* of the slab that is replaced */
    RF_TRY(rf_exec_reserve_slab(image->exec, image->size * sets));
    for (uint32_t i = 0; i < sets; i++)
        RF_TRY(rf_gpu_buffer_write(slab_of(image), image->size * i, image->bytes, image->size));
    image->num_sets = sets;
    return RF_OK;
}

/* Records as many runs as one recording needs. */
static rf_result find_runs(kernel_image *image, batch *b)
{
    for (;;) {
        double seconds;
        RF_TRY(image_record(image, b));
        RF_TRY(image_execute(image, b, &seconds));
        uint32_t runs = rf_timing_runs(b->runs, seconds * b->runs);
        if (runs == b->runs && seconds * b->runs < 20e-3) { /* unless something else held it up */
            double again;
            RF_TRY(image_execute(image, b, &again));
            runs = rf_timing_runs(b->runs, (again < seconds ? again : seconds) * b->runs);
        }
        if (runs == b->runs) return RF_OK;
        b->runs = runs;
    }
}

/* Whether the device had to be warmed up: then a recording may need more runs. */
static rf_result warm_up(kernel_image *image, const batch *b, bool *cold)
{
    const rf_exec *exec = image->exec;
    const uint64_t begin = rf_now_ns();
    double seconds;
    for (*cold = false; rf_warmth_wanted(&exec->warmth, &exec->caps, begin, rf_now_ns()); *cold = true)
        RF_TRY(image_execute(image, b, &seconds));
    return RF_OK;
}

static rf_result image_sample(kernel_image *image, batch *b, const rf_kernel_timing *timing, double *samples,
                              uint32_t *num_samples)
{
    double seconds;
    bool cold = false;
    RF_TRY(make_sets(image, b->sets));
    RF_TRY(find_runs(image, b));
    if (!timing->as_it_is) RF_TRY(warm_up(image, b, &cold));
    if (cold) RF_TRY(find_runs(image, b));
    const double share = timing->overlapped ? timing->min_seconds / 2 : timing->min_seconds;
    const uint64_t begin = rf_now_ns(); /* what it costs the caller, by whichever clock it is measured */
    for (*num_samples = 0; rf_timing_goes_on(*num_samples, (double)(rf_now_ns() - begin) * 1e-9, share);
         ++*num_samples) {
        RF_TRY(image_execute(image, b, &seconds));
        samples[*num_samples] = seconds;
    }
    return RF_OK;
}

/* The first run of the kernel has been. */
static rf_result take_times(kernel_image *image, double first, double *samples)
{
    rf_kernel_timing *timing = image->run->timing;
    const rf_device_caps *caps = &image->exec->caps;
    batch b = { .clock = timing->clock, .runs = 1, .sets = 1 };
    /* Some drivers compile in the first run, and most touch memory there that nothing has touched before. */
    if (caps->is_cpu) RF_TRY(image_execute(image, &b, &first));
    timing->gave_up = timing->give_up > 0 && first > timing->give_up;
    timing->runs = timing->samples = timing->sets = 1;
    timing->best = timing->median = first;
    timing->overlapped_seconds = 0;
    if (timing->gave_up) return RF_OK;

    b.sets = timing->sets = rf_timing_sets(caps, image->size);
    RF_TRY(image_sample(image, &b, timing, samples, &timing->samples));
    timing->runs = b.runs;
    rf_timing_summarize(samples, timing->samples, &timing->best, &timing->median);
    const uint32_t sets = rf_timing_overlapped_sets(caps, image->run->call, &image->plan.plan, image->size);
    if (!timing->overlapped || sets == 0) return RF_OK;
    b = (batch){ .clock = timing->clock, .runs = sets, .sets = sets, .overlapped = true };
    uint32_t count;
    double median;
    RF_TRY(image_sample(image, &b, timing, samples, &count));
    rf_timing_summarize(samples, count, &timing->overlapped_seconds, &median);
    return RF_OK;
}

/* ---- the whole ---- */

static rf_result make_plan(kernel_image *image)
{
    const rf_kernel_run *run = image->run;
    RF_TRY(rf_node_plan_make(image->exec, run->call, run->kernel, &image->plan));
    if (run->pieces > 1) {
        if (image->exec->caps.whole_dispatches)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "the driver runs dispatches as a whole only");
        uint32_t *pieces = RF_NEW_ARRAY(uint32_t, image->plan.plan.count);
        if (!pieces) return RF_ERROR_OUT_OF_HOST_MEMORY;
        for (uint32_t i = 0; i < image->plan.plan.count; i++) pieces[i] = run->pieces;
        const rf_result r = rf_kernel_plan_split(&image->plan.plan, pieces);
        rf_free(pieces);
        RF_TRY(r);
    }
    return rf_node_plans_compile(image->exec, &image->plan, 1);
}

static rf_result run_image(kernel_image *image)
{
    rf_kernel_timing *timing = image->run->timing;
    batch once = { .clock = RF_CLOCK_HOST, .runs = 1, .sets = 1 };
    double first;
    if (timing) {
        if (timing->clock == RF_CLOCK_CHOOSE)
            timing->clock = rf_timing_clock(rf_gpu_has_timestamps(image->exec->device));
        once.clock = timing->clock;
    }
    RF_TRY(make_plan(image));
    RF_TRY(lay_out(image));
    RF_TRY(image_upload(image));
    RF_TRY(image_record(image, &once));
    RF_TRY(image_execute(image, &once, &first));
    RF_TRY(image_download(image));
    if (!timing) return RF_OK;
    double *samples = RF_NEW_ARRAY(double, RF_TIMING_MOST_SAMPLES);
    const rf_result r = samples ? take_times(image, first, samples) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(samples);
    return r;
}

rf_result rf_kernel_execute(rf_exec *exec, rf_kernel_run *run)
{
    const rf_op_call *call = run->call;
    if (run->inplace_input) {
        RF_REQUIRE(run->inplace_input <= call->n_in && call->n_out > 0 && (call->op->flags & RF_OP_INPLACE) &&
                       rf_tensor_bytes(&call->in[run->inplace_input - 1]) == rf_tensor_bytes(&call->out[0]),
                   "rf_kernel_execute: %s cannot write output 0 in place of input %u", call->op->name,
                   run->inplace_input - 1);
    }
    kernel_image image = { .exec = exec, .run = run };
    const rf_result r = run_image(&image);
    rf_gpu_recording_destroy(&image.recorder.rec);
    rf_hazards_free(&image.recorder.hazards);
    rf_node_plan_free(&image.plan);
    rf_free(image.bytes);
    return rf_error_context(r, "%s", call->op->name);
}
