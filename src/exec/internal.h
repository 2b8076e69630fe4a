/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of src/exec/ share: the context, programs, their instances and frames. */
#ifndef RF_EXEC_INTERNAL_H
#define RF_EXEC_INTERNAL_H

#include "base/error.h"
#include "base/memory.h"
#include "exec/exec.h"
#include "exec/submission_split.h"

#define RF_MAX_INSTANCES 8
#define RF_FRAMES_PER_INSTANCE 2 /* at first */

typedef struct rf_tuning rf_tuning;
typedef struct rf_instance rf_instance;

/* Where the device's times stand in a trace of the host's (frame_trace.c). */
typedef struct rf_exec_clock {
    uint32_t track; /* 0: none yet */
    bool known;
    int64_t offset;   /* of the host's clock to the device's */
    uint64_t last_ns; /* the track is taken until then */
} rf_exec_clock;

/* Where a tensor lies: bytes [offset, offset + size) of a buffer; `size` is rf_tensor_bytes. */
typedef struct rf_span {
    rf_gpu_buffer *buffer;
    uint64_t offset, size;
} rf_span;

struct rf_exec {
    rf_gpu_device *device;
    rf_device_caps caps; /* the device's, but host_visible is off when staging is forced */
    struct {
        rf_gpu_buffer **items; /* all but the last of segment_size */
        uint32_t count, capacity;
    } slab;
    uint64_t slab_size, segment_size;
    uint64_t slab_generation; /* counts replacements: recordings made for another slab are stale */
    rf_gpu_buffer *counters;  /* RF_MAX_COUNTERS bytes, zero between runs; made for the first plan that has counters */
    uint64_t counters_next;   /* where the next plan's begin */
    uint64_t last_ticket;
    uint32_t frames; /* that instances may have, where memory allows */
    rf_split_policy split_policy;
    rf_tuning *tuning;
    bool tune_unknown;      /* RINGFIRE_TUNE: measure calls the table does not know */
    bool matrices_tried[2]; /* cooperative matrices of f16 and of bf16: caps say what came of it */
    rf_exec_clock clock;
    rf_warmth warmth;
    bool tuned; /* kernels have been measured for the table */
    struct {
        uint64_t *items;
        uint32_t count, capacity;
    } logged; /* hashes of calls that the log has told of: once each */
};

/* Makes the slab at least `size` bytes; waits for runs in flight before replacing any of it. */
rf_result rf_exec_reserve_slab(rf_exec *exec, uint64_t size);
/* Bytes of the slab, which lie within one of its segments. */
rf_span rf_exec_slab_span(const rf_exec *exec, uint64_t offset, uint64_t size);

/* ---- cooperative matrices (matrices.c) ---- */
/* Before a kernel for the call is chosen: the first time that one with such matrices could be, it takes them from caps
 * unless they compute what they should, and warns. */
rf_result rf_exec_try_matrices(rf_exec *exec, const rf_op_call *call);

/* ---- what the log tells of plans (log_plans.c) ---- */
/* "op(f32 [2,3], ...)"; gives `text`. */
const char *rf_call_format(const rf_op_call *call, char *text, size_t size);
/* Warns once per device and call where nothing but a last resort can run it; debug: which kernel was chosen. */
void rf_log_kernel_choice(rf_exec *exec, const char *program, int64_t batch, const rf_op_call *call,
                          const rf_kernel *kernel);
/* Debug: the sizes of what was planned. Advice, once in a process, where a software driver's threads hinder the step.
 */
void rf_log_instance_plan(const rf_instance *instance);

/* ---- tuning table (tune.c) ---- */
rf_result rf_tuning_create(const rf_exec *exec, const char *cache_directory, bool read_only, rf_tuning **out);
void rf_tuning_destroy(rf_tuning **tuning);
/* Name of the kernel remembered for the call, NULL when unknown. */
const char *rf_tuning_find(const rf_tuning *tuning, const rf_op_call *call);
/* Remembers and, with a cache directory, saves. A file that cannot be written is a logged warning. */
rf_result rf_tuning_put(rf_tuning *tuning, const rf_op_call *call, const char *kernel, double seconds);
/* Seconds that runs take by those that are assumed (submission_split.h), 1 before one was measured; remembered and
 * saved as well, where it has changed by a quarter. */
double rf_tuning_pace(const rf_tuning *tuning);
rf_result rf_tuning_put_pace(rf_tuning *tuning, double pace);
/* The file's text: what it holds and the table lacks is taken over; RF_ERROR_CORRUPT_DATA where it is none. */
rf_result rf_tuning_parse(rf_tuning *tuning, const void *text, size_t size);
/* NULL: out of memory. free(). */
char *rf_tuning_text(const rf_tuning *tuning);
/* Text that calls share when a measured choice for one holds for the other: op, attributes, types, shapes with
 * dimension 0 rounded up to a power of two. */
char *rf_tuning_key(const rf_op_call *call);

/* ---- recording one node after the other with as few barriers as the accesses need (record.c) ---- */
typedef struct rf_access {
    const rf_gpu_buffer *buffer;
    uint64_t begin, end;
    bool write;
} rf_access;
typedef struct rf_hazards {
    struct {
        rf_access *items;
        uint32_t count, capacity;
    } pending; /* since the last barrier */
} rf_hazards;
/* True when one of `accesses` reads or writes what a pending access wrote, or writes what one read. */
bool rf_hazards_conflict(const rf_hazards *hazards, const rf_access *accesses, uint32_t count);
rf_result rf_hazards_add(rf_hazards *hazards, const rf_access *accesses, uint32_t count);
void rf_hazards_clear(rf_hazards *hazards);
void rf_hazards_free(rf_hazards *hazards);

typedef struct rf_recorder {
    rf_gpu_recording *rec;
    rf_hazards hazards;
    uint32_t num_barriers;
} rf_recorder;
/* Everything a planned node needs to be recorded. */
typedef struct rf_node_plan {
    rf_node node;
    const rf_op *op;
    const rf_kernel *kernel;
    rf_kernel_plan plan;
    rf_gpu_pipeline **pipelines; /* one per dispatch */
    rf_span counters;            /* where plan.counters lie; placed together with the pipelines */
    rf_cost cost;
} rf_node_plan;
/* Plans `kernel` for the call: dispatches, limits. Free with rf_node_plan_free also after a failure. */
rf_result rf_node_plan_make(const rf_exec *exec, const rf_op_call *call, const rf_kernel *kernel, rf_node_plan *out);
/* Gets the pipelines of all of them together, so that they can be compiled side by side, and places their counters. */
rf_result rf_node_plans_compile(rf_exec *exec, rf_node_plan *plans, uint32_t count);
void rf_node_plan_free(rf_node_plan *plan);
rf_result rf_record_node(rf_recorder *recorder, const rf_node_plan *plan, const rf_span *in, const rf_span *out,
                         rf_span workspace);
/* Dispatches first .. end - 1 of the node; where first is not 0 they begin a recording. */
rf_result rf_record_dispatches(rf_recorder *recorder, const rf_node_plan *plan, uint32_t first, uint32_t end,
                               const rf_span *in, const rf_span *out, rf_span workspace);
rf_result rf_record_copy(rf_recorder *recorder, rf_span from, rf_span to);
void rf_record_barrier(rf_recorder *recorder);

/* Bytes that a tensor's place takes: whole 32-bit words, because shaders address words. */
static inline uint64_t rf_padded_bytes(const rf_tensor_desc *desc)
{
    return rf_align_up(rf_tensor_bytes(desc), 4);
}

/* ---- programs ---- */
typedef enum rf_home {
    RF_HOME_NONE, /* not part of the run, or only its shape is */
    RF_HOME_SLAB,
    RF_HOME_INPUT,  /* the frame's input area */
    RF_HOME_RESULT, /* the frame's readback area */
    RF_HOME_FIXED,  /* a buffer that outlives the run: state, constant, placement */
} rf_home;
typedef struct rf_residence {
    rf_home home;
    rf_gpu_buffer *buffer; /* RF_HOME_FIXED */
    uint64_t offset, size;
} rf_residence;
/* A value that must be copied at the end of the run because it could not be computed in place. */
typedef struct rf_final_copy {
    rf_value value;
    rf_residence to;
    uint32_t part; /* at whose end */
} rf_final_copy;

/* The meaning of a recording's timestamps: its begin, in a detailed one the end of each node, its end. */
typedef struct rf_stamps {
    uint32_t first_node, num_nodes;
    uint64_t submit_ns; /* host's time of the latest submission */
} rf_stamps;
/* A run as it is submitted. */
typedef struct rf_frame_recs {
    rf_gpu_recording **recs;
    uint32_t num_recs;
    uint32_t *part_recs;      /* [num_parts]: how many of `recs` there are up to the end of a part */
    rf_stamps *stamps;        /* [num_recs]; NULL: no timestamps */
    uint64_t slab_generation; /* that `recs` were made for */
    uint32_t cut_generation;  /* the same of the instance's */
} rf_frame_recs;

struct rf_frame {
    rf_instance *instance;
    rf_gpu_buffer *upload;  /* inputs and host values as the host writes them; NULL when `inputs` is mapped */
    rf_gpu_buffer *inputs;  /* as kernels read them; NULL without inputs */
    rf_gpu_buffer *results; /* READBACK; NULL without results */
    unsigned char *input_bytes, *result_bytes;
    rf_frame_recs plain, detailed; /* detailed: for a trace of single operations, made when first needed */
    rf_frame_recs *run;            /* which of them the run uses */
    uint32_t parts_done;           /* of the run being submitted */
    uint64_t ticket;               /* of the latest submission, 0: none */
    bool acquired;
    bool traced; /* its device times have not been told yet */
    bool timed;  /* the run carries timestamps that nobody has read */
};

struct rf_instance {
    rf_program *program;
    int64_t batch;
    rf_graph *graph;
    rf_node_plan *nodes; /* that run a kernel, in order */
    uint32_t num_nodes;
    bool *runs;           /* per node of `graph`, which is in another order than the program's */
    uint32_t *dispatches; /* per node: those that follow each other with barriers between them; 0: none */
    rf_memory_plan memory;
    rf_residence *residence; /* per value */
    struct {
        rf_final_copy *items;
        uint32_t count, capacity;
    } copies;
    uint64_t *input_offset, *host_offset; /* by slot; UINT64_MAX: unused */
    uint64_t input_size;
    uint64_t *result_offset;
    uint64_t result_size;
    rf_frame *frames[RF_MAX_FRAMES]; /* in the order in which they take turns */
    uint32_t num_frames, next_frame;
    rf_frame *latest_frame; /* NULL: none ran */
    bool out_of_memory;     /* when one more was wanted */
    uint32_t num_dispatches, num_barriers;
    double pace;             /* of its estimates (submission_split.h); 0 where runs are not cut */
    bool paced;              /* it was measured */
    uint32_t cut_generation; /* counts changes of the pace */
    uint64_t last_use;
    uint64_t num_runs; /* while traced */
};

struct rf_program {
    rf_exec *exec;
    char *name;
    rf_graph *graph; /* optimised, at the traced batch */
    rf_value *results;
    uint32_t num_results;
    rf_location *states;
    rf_program_placement *placements;
    uint32_t num_placements;
    uint32_t num_parts; /* those of sums included, which come first */
    bool picks_numbers; /* see rf_program_params */
    bool replicated;    /* one of several: sums over replicas are the caller's */
    rf_program_sum_places sum_places;
    rf_program_sum *sums; /* that are needed, in order of their nodes */
    uint32_t num_sums, num_sum_parts;
    bool *runs;                /* per node: something that is wanted depends on its bytes */
    bool *reads;               /* per value: a node that runs, a result or a placement needs its bytes */
    rf_gpu_buffer *constants;  /* NULL without constants */
    uint64_t *constant_offset; /* per value */
    rf_instance *instances[RF_MAX_INSTANCES];
    uint32_t num_instances;
    uint64_t clock;
    struct {
        rf_gpu_pipeline **items;
        uint32_t count, capacity;
    } pipelines; /* distinct */
};

/* ---- programs and their instances (program.c, instance.c) ---- */
rf_result rf_program_instance(rf_program *program, int64_t batch, rf_instance **out);
rf_result rf_instance_create(rf_program *program, int64_t batch, rf_instance **out);
/* Waits for its frames. */
void rf_instance_destroy(rf_instance **instance);

/* ---- sums over replicas (sums.c) ---- */
/*
 * Lists the sums that nodes marked in `runs` make, in order, and says at the end of which part each is exchanged: as
 * many together as no node between them reads. sums: room for all. Returns the number of parts. Pure.
 */
uint32_t rf_list_sums(const rf_graph *graph, const bool *runs, uint64_t alignment, rf_program_sum *sums,
                      uint32_t *count);
/* Finds the program's sums, and places what it adds to them; its other placements come in parts after theirs. */
rf_result rf_program_plan_sums(rf_program *program);
static inline rf_location rf_sum_location(const rf_location *base, const rf_program_sum *sum)
{
    return (rf_location){ base->buffer, base->offset + sum->offset * sizeof(float) };
}
/* True when a node of this op runs no kernel: a view, or a sum that the caller makes. */
static inline bool rf_program_skips(const rf_program *program, const rf_op *op)
{
    return (op->flags & RF_OP_VIEW) || (program->replicated && (op->flags & RF_OP_SUMS_REPLICAS));
}

/* ---- order (schedule.c) ---- */
typedef struct rf_order_params {
    const rf_graph *graph;
    const uint32_t *dispatches; /* per node: how many it has one after the other; 0: it runs no kernel */
    const uint32_t *segment;    /* per node, never falling: nodes stay within theirs */
    rf_graph_roots roots;       /* what is wanted at the end */
    uint64_t spare;             /* bytes that may live at once more than in the graph's order */
} rf_order_params;
/* order[i]: the node that comes at place i, for rf_graph_reorder(). Nodes that share no bytes that one of them writes
 * come side by side, so that few barriers are needed, but no more is kept alive than before by more than `spare` and
 * a thirty-second. Depends on its arguments alone. Pure. */
rf_result rf_order_nodes(const rf_order_params *params, rf_node *order);
/* Which nodes may run at the same time where a barrier is recorded only when bytes meet. `segment` is not used. Pure.
 */
rf_result rf_order_spans(const rf_order_params *params, rf_node_span *spans);

/* ---- frames (frame.c) ---- */
rf_result rf_frame_create(rf_instance *instance, rf_frame **out); /* with its buffers */
void rf_frame_destroy(rf_frame **frame);
/* (Re-)records when there is no recording for the present slab. */
rf_result rf_frame_record(rf_frame *frame);
rf_result rf_frame_wait(const rf_frame *frame);
rf_gpu_commands rf_frame_commands(const rf_frame *frame); /* of all its recordings */

/* ---- where values lie (value_locations.c) ---- */
rf_span rf_instance_span(const rf_instance *instance, const rf_frame *frame, rf_value v);
/* Where final copy `index` goes. */
rf_span rf_instance_copy_target(const rf_instance *instance, const rf_frame *frame, uint32_t index);
/* Spans of a planned node's tensors, for rf_record_node(). */
void rf_instance_node_spans(const rf_instance *instance, const rf_frame *frame, uint32_t index, rf_span *in,
                            rf_span *out, rf_span *workspace);
/* For each part, how many nodes have run at its end: then all that its placements need is there. */
rf_result rf_instance_part_ends(const rf_instance *instance, uint32_t *ends);

/* ---- device times in a trace of the host (frame_trace.c) ---- */
/* Which recordings the run that begins uses; sets frame->run. */
void rf_frame_choose_recs(rf_frame *frame);
/* Whether recordings made now get timestamps. */
bool rf_frame_stamps(const rf_frame *frame);
/* Seconds that the latest run, which must have ended, took on the device; 0 where that is not known or was told before.
 */
double rf_frame_seconds(rf_frame *frame);
/* Recording `index` of the run is about to be submitted. */
void rf_frame_submitting(rf_frame *frame, uint32_t index);
/* Tells the trace when the latest run was on the device; it must have ended. */
void rf_frame_trace(rf_frame *frame);

/* ---- cutting long runs (submission_split.c) ---- */
/* Takes apart the planned nodes that take too long; before their pipelines are made. */
rf_result rf_instance_split_nodes(rf_instance *instance);
/* cut[i]: a recording begins before dispatch i of all nodes' dispatches; num_dispatches entries. */
rf_result rf_instance_split_run(const rf_instance *instance, bool *cut, uint32_t *num_recs);
/* A run took so many seconds on the device: estimates follow, and what was planned by them. Recordings of before are
 * stale. */
rf_result rf_instance_adopt_pace(rf_instance *instance, double seconds);

#endif
