/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of ops are made of these: literals for their tables, checks of shapes, costs, scores, and for
 * kernel plans workgroups, grids, bindings, and the two jobs that most plans are. A flat job walks tensors
 * element by element; a row job walks them by rows, whatever the op takes for one: a vector along the last axis, an
 * image.
 */
#ifndef RF_OPS_KIT_H
#define RF_OPS_KIT_H

#include "base/error.h"
#include "base/memory.h"
#include "graph/op.h"

/* ---- literals ---- */

#define RF_LENGTH(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))
/* clang-format off */
/* An op's fields for its kernels: those that every device runs. _AND: further lists, by RF_SOFTWARE and RF_GPU. */
#define RF_KERNELS(table) .families = { &(const rf_kernel_list)RF_KERNEL_LIST(table) }
#define RF_KERNELS_AND(table, ...) .families = { &(const rf_kernel_list)RF_KERNEL_LIST(table), __VA_ARGS__ }
/* Kernels of a family: `const rf_kernel_list rf_matmul_gpu = RF_KERNEL_LIST(table)`. */
#define RF_KERNEL_LIST(table) { table, RF_LENGTH(table) }
/* Lists of kernels that only software drivers run, which builds for GPUs leave out (-Dsoftware_kernels=false), and that
 * only GPUs run. */
#ifdef RF_NO_SOFTWARE_KERNELS
#define RF_SOFTWARE(list) [RF_FAMILY_CPU] = NULL
#else
#define RF_SOFTWARE(list) [RF_FAMILY_CPU] = list
#endif
#define RF_GPU(list) [RF_FAMILY_GPU] = list
/* clang-format on */

/* Functions of kernels, for declarations. */
typedef double rf_score_fn(const rf_op_call *call, const rf_device_caps *caps, const void *data);
typedef rf_result rf_plan_fn(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                             rf_kernel_plan *plan);
typedef bool rf_narrow_fn(const rf_op_call *call, const rf_device_caps *caps, const void *data);

static inline uint64_t rf_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint32_t rf_float_word(float value)
{
    union {
        float f;
        uint32_t u;
    } bits = { .f = value };
    return bits.u;
}

/* ---- shapes and costs ---- */

uint64_t rf_desc_count(const rf_tensor_desc *desc);
uint64_t rf_desc_columns(const rf_tensor_desc *desc); /* last dimension; 1 for a scalar */
uint64_t rf_desc_rows(const rf_tensor_desc *desc);    /* product of all other dimensions */
/* Failures that name the op, the argument and its shape. */
rf_result rf_expect_dtype(const rf_op_call *call, uint32_t input, rf_dtype dtype);
rf_result rf_expect_not_empty(const rf_op_call *call, uint32_t input);
rf_result rf_expect_shape(const rf_op_call *call, uint32_t input, const rf_shape *shape, const char *why);
/* f32 with at least one dimension: what softmax and its relatives take. */
rf_result rf_expect_rows(const rf_op_call *call, uint32_t input);
/* Reads and writes every byte of the tensors once. */
rf_cost rf_cost_of(const rf_op_call *call, double flops);
/* All tensors of the call fit one storage descriptor (shape-only inputs do not count). */
bool rf_fits_storage(const rf_op_call *call, const rf_device_caps *caps);

/* ---- scores ---- */

/*
 * Scores order the kernels of one op on one device; those of different ops are never compared. Most kernels are rated
 * by kind: wherever several are eligible, the one that stands last in this list runs.
 */
enum {
    RF_SCORE_NONE,    /* not eligible */
    RF_SCORE_RESERVE, /* correct, but made for other devices or shapes: used where no other kernel is eligible */
    RF_SCORE_ANY,     /* for any device and shape: one element, row or window per invocation */
    RF_SCORE_WIDE,    /* the same with wider loads: several elements, mostly four, per invocation */
    RF_SCORE_SHAPE,   /* made for shapes like this one, or for this kind of device */
    RF_SCORE_EXACT,   /* made for few shapes: one size that is built in, windows too large for the others */
    RF_SCORE_DRIVER,  /* measured to be the fastest on this driver */
    RF_SCORE_COPY,    /* no shader at all, where copies by the driver take less time than any */
};
/* Where the choice depends on how much there is to compute, as in matrix products, all kernels of the op are rated by
 * the time that they would take instead. */
static inline double rf_score_of_time(double seconds)
{
    return 1e-3 / seconds;
}
rf_score_fn rf_score_any; /* of kernels that take every call on every device */

/* ---- workgroups and grids ---- */

#define RF_FLAT_LOCAL 256 /* wanted invocations of a workgroup in flat jobs */
/* `wanted` invocations, or the largest power of two that the device takes. */
uint32_t rf_local_size(const rf_device_caps *caps, uint32_t wanted);
/* A line of workgroups, spread over x and y where there are too many for x, with hardly any idle ones. False when there
 * are too many for the device, or none. Shaders number them y * grid.x + x. */
bool rf_grid_make(const rf_device_caps *caps, uint64_t groups, uint32_t grid[3]);
/* Sets the grid for so many workgroups, or for so many invocations in workgroups of spec[0], of which the last ones may
 * be idle. A grid that is too large is refused when the plan is checked. */
void rf_dispatch_groups(rf_dispatch *d, const rf_device_caps *caps, uint64_t groups);
void rf_dispatch_items(rf_dispatch *d, const rf_device_caps *caps, uint64_t items);
/* Subgroups are the lanes that kernels for software drivers are made for: eight, or four of lavapipe. */
bool rf_few_lanes(const rf_device_caps *caps);
/* The device can run shaders that read and write by RF_TEXELS and RF_WRITE of shaders/include/wide.glsl. */
bool rf_flat_texels(const rf_device_caps *caps);

/* n / d for n < 2^31 as rf_divide() of shaders/include/division.glsl does it. */
typedef struct rf_magic {
    uint32_t magic, shift;
} rf_magic;
rf_magic rf_magic_make(uint32_t divisor);

/* ---- bindings: each is appended, outputs and the workspace for writing ---- */

void rf_bind(rf_dispatch *d, rf_binding binding);
rf_binding *rf_bind_whole(rf_dispatch *d, rf_bind_kind kind, uint32_t index);
rf_binding *rf_bind_bytes(rf_dispatch *d, rf_bind_kind kind, uint32_t index, uint64_t offset, uint64_t size);
/* `count` elements of four bytes from number `first` on. Descriptors start at aligned offsets: returned is where the
 * first element stands in what is bound, which is also what rf_element_base() gives. */
uint32_t rf_bind_elements(rf_dispatch *d, const rf_device_caps *caps, rf_bind_kind kind, uint32_t index, uint64_t first,
                          uint64_t count);
uint32_t rf_element_base(const rf_device_caps *caps, uint64_t first);

/* ---- flat jobs ---- */

/* Elements per dispatch when the widest element takes `element_size` bytes: every chunk starts at an aligned offset for
 * any element size, and indices stay below 2^29. */
uint64_t rf_flat_chunk(const rf_device_caps *caps, size_t element_size);
/* A kernel over n_tensors flat f32 tensors of `count` elements, `width` elements per invocation. Its shader's constants
 * are { local size, has tail, extra... } and its push constants { whole vectors, tail elements, extra... }. */
typedef struct rf_flat_job {
    const rf_shader *shader;
    uint32_t width;
    uint32_t n_tensors;
    struct {
        rf_bind_kind kind;
        uint32_t index;
        bool write;
        rf_bind_view view;
        bool narrow; /* elements of 16 bits */
    } tensors[8];
    uint32_t n_small; /* further inputs bound whole after the tensors */
    uint32_t small[2];
    uint32_t n_spec, spec[8];
    uint32_t push_size, push[24]; /* bytes and words of what follows the two counts */
} rf_flat_job;
/* Gives the job the struct of its shader's push constants (rf_push.h), whose first two members it sets itself:
 * `vectors` and `tail`. */
#define RF_FLAT_JOB_PUSH(job, values, vectors, tail)                                                                   \
    do {                                                                                                               \
        _Static_assert(offsetof(__typeof__(values), vectors) == 0 && offsetof(__typeof__(values), tail) == 4,          \
                       "a flat job sets the first two members");                                                       \
        rf_flat_job_push((job), &(values), sizeof(values));                                                            \
    } while (0)
void rf_flat_job_push(rf_flat_job *job, const void *values, size_t size);
rf_result rf_flat_job_plan(const rf_flat_job *job, uint64_t count, const rf_device_caps *caps, rf_kernel_plan *plan);

/* Output 0, in f32: one value everywhere (fill.c), by the driver where that is faster. */
rf_result rf_fill_plan(const rf_op_call *call, float value, const rf_device_caps *caps, rf_kernel_plan *plan);
rf_result rf_fill_plan_by_shader(const rf_op_call *call, float value, const rf_device_caps *caps, rf_kernel_plan *plan);
rf_result rf_fill_plan_by_driver(float value, rf_kernel_plan *plan);
rf_score_fn rf_fill_driver_score;

/* The greatest one of both; that of 0 and b is b. */
uint64_t rf_common_divisor(uint64_t a, uint64_t b);

/* ---- row jobs ---- */

typedef enum rf_row_grid {
    RF_GRID_THREADS, /* rows * threads_per_row invocations, numbered through x and y */
    RF_GRID_GROUPS,  /* one workgroup a row, numbered through x and y */
    RF_GRID_IMAGES,  /* x: threads_per_row invocations, y: the row */
} rf_row_grid;
typedef struct rf_row_tensor {
    rf_bind_kind kind;
    uint32_t index;
    bool write;
    rf_bind_view view;
    uint64_t row_bytes; /* 0: every dispatch has the whole tensor */
    uint64_t base; /* bytes before the first row: of a workspace that holds several things; aligned as bindings are */
} rf_row_tensor;
typedef struct rf_row_job {
    const rf_shader *shader;
    rf_row_grid grid;
    uint32_t local; /* workgroup size: spec[0] */
    uint64_t rows, threads_per_row;
    uint64_t loops; /* see rf_dispatch: RF_NO_LOOPS where no loop depends on sizes */
    double score;   /* where the device can run it; 0: RF_SCORE_ANY */
    uint32_t n_tensors, n_push, n_spec;
    rf_row_tensor tensors[RF_MAX_BINDINGS];
    uint32_t spec[6];               /* spec[1] and on */
    uint32_t push[RF_MAX_PUSH / 4]; /* push[0] is overwritten with the rows of the dispatch */
} rf_row_job;
void rf_row_job_tensor(rf_row_job *job, rf_bind_kind kind, uint32_t index, uint64_t row_bytes);
/* A row of the tensor, as it is stored. */
static inline uint64_t rf_row_bytes(const rf_tensor_desc *desc)
{
    return rf_desc_columns(desc) * rf_dtype_size(desc->dtype);
}
/* Gives the job the struct of its shader's push constants (rf_push.h), whose first member it sets itself: `rows`. */
#define RF_ROW_JOB_PUSH(job, values, rows)                                                                             \
    do {                                                                                                               \
        _Static_assert(offsetof(__typeof__(values), rows) == 0, "a row job sets the first member");                    \
        rf_row_job_push((job), &(values), sizeof(values));                                                             \
    } while (0)
void rf_row_job_push(rf_row_job *job, const void *values, size_t size);
/* The constant that shaders/include/stored.glsl calls TYPES. */
uint32_t rf_row_job_types(const rf_row_job *job, const rf_op_call *call, const rf_device_caps *caps);
/* Rows that one dispatch may take, so that every tensor's chunk fits a descriptor and starts where descriptors may, and
 * the grid fits; 0 when not even one may. */
uint64_t rf_row_job_chunk(const rf_row_job *job, const rf_device_caps *caps);
/* As many dispatches as that needs. */
rf_result rf_row_job_plan(const rf_row_job *job, const rf_device_caps *caps, rf_kernel_plan *plan);
/*
 * Row operations come in three ways: one invocation walks a row, or a workgroup does, whose invocations take turns
 * with the columns (GROUP of shaders/reduction/common/row_group.glsl), or some neighbouring lanes of a subgroup do
 * (LANES there). `passes`: how often a row is walked, in blocks of 64 or not; `steps`: columns, or fours of them.
 */
/* Iterations for `columns` steps shared by `lanes` invocations. */
uint64_t rf_row_loops(uint64_t columns, uint32_t lanes, uint32_t passes);
/* Invocations of a workgroup that walks a row: 128, more where these would loop longer than the device lets them. */
uint32_t rf_row_group_size(const rf_device_caps *caps, uint64_t columns, uint32_t passes);
/* Workgroups are for GPUs, and for rows that occupy one. */
double rf_row_group_score(const rf_device_caps *caps, uint64_t columns);
/* Makes the job one of workgroups: its grid, local size, loops and score. */
void rf_row_job_group(rf_row_job *job, const rf_device_caps *caps, const rf_shader *shader, uint64_t columns,
                      uint32_t passes);
/* Lanes that share a row: a power of two; 0: the device has no whole subgroups that shuffle. */
uint32_t rf_row_lanes(const rf_device_caps *caps, uint64_t steps);
/* Makes the job one of such lanes: invocations, local size, loops, score and the shader's next constant. */
void rf_row_job_lanes(rf_row_job *job, const rf_device_caps *caps, uint64_t steps, uint32_t passes);
/* Scores a complete job that reads by texels: `score` where drivers fetch these at once and one dispatch takes all
 * rows, RF_SCORE_RESERVE elsewhere. */
void rf_row_job_texels(rf_row_job *job, const rf_device_caps *caps, double score);
/* RF_SCORE_NONE where the device cannot loop that long or a row does not fit its descriptors. Otherwise the job's. */
double rf_row_job_score(const rf_row_job *job, const rf_device_caps *caps);
/* Makes the job of a kernel; false: it cannot do the call. */
typedef bool rf_row_make_fn(const rf_op_call *call, const rf_device_caps *caps, const void *form, rf_row_job *job);
/* A kernel that is one row job: the data of a kernel with these functions. */
typedef struct rf_row_kernel {
    rf_row_make_fn *make;
    const void *form; /* handed to it: how this kernel differs from others that share it */
} rf_row_kernel;
rf_score_fn rf_row_kernel_score;
rf_plan_fn rf_row_kernel_plan;
/* Rows of tables begin so: RF_ROW_KERNEL("row", make, form) */
#define RF_ROW_KERNEL(text, ...)                                                                                       \
    text, rf_row_kernel_score, rf_row_kernel_plan, &(const rf_row_kernel)                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* ---- types of 16 bits ---- */

/* A type as shaders/include/narrow.glsl numbers it. */
uint32_t rf_type_word(rf_dtype dtype, const rf_device_caps *caps);
/* Converts `count` elements at byte offsets (cast.c). `concurrent`: the first dispatch needs no barrier either. */
typedef struct rf_cast_side {
    rf_bind_kind kind;
    uint32_t index;
    uint64_t offset;
    rf_dtype dtype;
} rf_cast_side;
rf_result rf_cast_add(rf_kernel_plan *plan, const rf_device_caps *caps, rf_cast_side from, rf_cast_side to,
                      uint64_t count, bool concurrent);
/* An op's rf_op.widen: converts before and after kernels that know f32 alone. */
rf_result rf_widen(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan);
/* rf_kernel.narrow of kernels that take all such calls, and of those that read other bits through texels of floats:
 * what drivers do to these is not said, but that lavapipe leaves them alone. */
bool rf_always_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data);
bool rf_texels_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data);
/* For a call that copies elements as such, all of 16 bits and in even last dimensions: the same copies of words, each
 * of which holds two. Any other call comes back as it is. */
rf_op_call rf_call_in_words(const rf_op_call *call);
/* Whether that is another call: rf_kernel.narrow of kernels that plan it. */
bool rf_words_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data);
/* The outputs that are stored in the type of the inputs. */
#define RF_STORES_16(outputs) .widen = rf_widen, .narrow = outputs

/* ---- kernels ---- */

/* A tensor of a plan's call, or one that lies in the plan's workspace. */
typedef struct rf_plan_tensor {
    rf_bind_kind kind; /* an input, an output or the workspace */
    uint32_t index;
    uint64_t offset, size; /* in the workspace; of an input or output, size 0: all of it */
} rf_plan_tensor;
/* For rf_op.finish: appends the best plan for `call`, a call of another op whose inputs and outputs are
 * these tensors of the plan's own. */
rf_result rf_plan_append(rf_kernel_plan *plan, const rf_op_call *call, const rf_device_caps *caps,
                         const rf_plan_tensor *in, const rf_plan_tensor *out);

#endif
