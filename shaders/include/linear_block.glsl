/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of the matrix kernels for devices with shared memory: a workgroup computes BM x BN of c,
 * each invocation TM x TN of them. A slice of BK summands of a and b goes from memory to registers
 * while the slice before it is multiplied, and from there to one of two stages in shared memory:
 * one barrier for each slice. The stages hold lines of one summand, so that an invocation reads
 * vectors of four, TM / 4 + TN / 4 of them for TM * TN multiply-adds.
 *
 * BM, BN, BK, TM and TN are build variants; no assumption on subgroups. So is GROUPS: with more
 * than one of them, each group of invocations multiplies a share of every slice's summands, GROUPS
 * * TM rows an invocation, and what they have is added up at the end. Small products, which leave
 * most of a device idle, then wait for few, large slices. The including shader defines A_ALONG_K
 * and B_ALONG_K in front of this (four elements that are loaded at once are summands of one line;
 * otherwise one summand of four lines), and void load_a(int k, int to), void load_b(int k, int to)
 * which bring the slice of summands k .. k + BK - 1 into ra and rb, whatever it may be from `to`
 * on, and void settle_a(int k, int to), void settle_b(int k, int to) which make what a slice has
 * from `to` on zeros. Calls begin with the first summand and go on by BK, a before b; all slices
 * but the last are whole. Code that follows a load in load_a() and load_b(), if only a choice
 * between two loads, waits for it: on an NVIDIA H200 that took a quarter to two fifths of the time.
 * It belongs into the other two, which are called when the slice before has been multiplied, and so
 * do STAGED_A(i), where it is defined, which makes of ra[i] what is multiplied, and conversions of
 * vectors that are stored in 16 bits: WIDEN_A and WIDEN_B, to be defined as well, say whether ra
 * and rb hold the words of such vectors.
 */
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 4) const int SPLIT = 0; /* sums are cut into parts */

/* Where the first element of load number i of this invocation belongs: line and summand within the
 * slice. */
#define LINE_OF(i, along, lines)                                                                   \
    ((along) ? LINE_ALONG + (i) * (THREADS / (BK / 4)) : thread % ((lines) / 4) * 4)
#define K_OF(i, along, lines)                                                                      \
    ((along) ? K_ALONG : thread / ((lines) / 4) + (i) * (THREADS / ((lines) / 4)))

#ifdef COOPERATIVE
#define LINE_ALONG (thread / (BK / 4))
#define K_ALONG (thread % (BK / 4) * 4)
#include "linear_coop.glsl"
#else
/* Four of 32 neighbours have summands of one line, and there are eight lines: SWIZZLE() keeps these
 * apart. */
#define LINE_ALONG (thread / 4 % 8 + thread / 32 / (BK / 16) * 8)
#define K_ALONG ((thread % 4 + thread / 32 % (BK / 16) * 4) * 4)
#ifndef GROUPS
#define GROUPS 1
#endif
#define OPERAND float
#define OPERAND4 vec4
#define OPERAND_ONE 1.0
#define TN4 (TN / 4)
/* BK: the loop over a slice is unrolled by the driver, and the module stays small; 0: it stays a
 * loop, which software compiles in a fraction of the time. */
layout(constant_id = 3) const int SLICE = BK / GROUPS; /* summands of a group */
/* Which are stored in 16 bits, bit 0: a, 1: b, 2: biases or mask, 3: c and its maxima; << 8: in
 * which type. */
layout(constant_id = 12) const uint TYPES = 0;
#define NARROW_A ((TYPES & 1u) != 0u)
#define NARROW_B ((TYPES & 2u) != 0u)
#define NARROW_BIAS ((TYPES & 4u) != 0u)
#define NARROW_C ((TYPES & 8u) != 0u)
#define TYPE (TYPES >> 8)
#include "narrow.glsl"

#define THREADS ((BM / TM) * (BN / TN))
#define LINE_A (BM / 4)
#define LINE_B (BN / 4)
#define LOADS_A (BM * BK / 4 / THREADS)
#define LOADS_B (BN * BK / 4 / THREADS)
/* Vectors from one of an invocation's groups of four to the next: neighbours read neighbouring
 * vectors. */
#define GROUP_A (BM / (TM * GROUPS))
#define GROUP_B (BN / TN)
shared vec4 tile_a[2 * BK * LINE_A];
shared vec4 tile_b[2 * BK * LINE_B];

vec4 ra[LOADS_A], rb[LOADS_B];
int thread = int(gl_LocalInvocationID.x);
/* Eight of 32 neighbours stand along the rows and four along the columns, of 16 eight and two. On
 * an NVIDIA H200 this order makes the tiles of 32 x 32 and of 128 x 64 a twentieth faster than
 * eight along the rows and the next eight beside them. */
int member = thread % (GROUP_A * GROUP_B), share = thread / (GROUP_A * GROUP_B);
int group_a = member / 32 % (GROUP_A / 8) * 8 + member / 2 % 8;
int group_b = member / 32 / (GROUP_A / 8) * 4 + member % 2 + member / 16 % 2 * 2;

void load_a(int k, int to);
void load_b(int k, int to);
void settle_a(int k, int to);
void settle_b(int k, int to);

/* Vectors of a line stand in another order for each four summands: neighbours that write four
 * summands of a line each meet in no bank, and nothing is padded. */
#define SWIZZLE(p) ((p) / 4 % 4 * 2)

#ifdef STAGED_A
OPERAND4 staged_a(int i);
#else
#define STAGED_A(i) ra[i]
#endif
#define STAGED_B(i) rb[i]
#define STORE_OPERAND(tile, staged, widen, loads, line_size, along, lines)                         \
    [[unroll]] for (int i = 0; i < loads; i++)                                                     \
    {                                                                                              \
        vec4 v = staged(i);                                                                        \
        if (widen) v = rf_widen(TYPE, floatBitsToUint(v.xy));                                      \
        int line = LINE_OF(i, along, lines), p = K_OF(i, along, lines);                            \
        int at = (stage * BK + p) * line_size + (line / 4 ^ SWIZZLE(p));                           \
        if (along) [[unroll]]                                                                      \
            for (int j = 0; j < 4; j++) tile[at + j * line_size][line % 4] = v[j];                 \
        else                                                                                       \
            tile[at] = v;                                                                          \
    }

void block_stage(int stage, int k, int to)
{
    settle_a(k, to);
    settle_b(k, to);
    STORE_OPERAND(tile_a, STAGED_A, WIDEN_A, LOADS_A, LINE_A, A_ALONG_K, BM)
    STORE_OPERAND(tile_b, STAGED_B, WIDEN_B, LOADS_B, LINE_B, B_ALONG_K, BN)
}

/* Each group has sums of its summands; own = of TM of their rows each those of all, in the order of
 * the groups. */
void add_groups(vec4 sum[TM * GROUPS][TN4], out vec4 own[TM][TN4])
{
    int members = GROUP_A * GROUP_B;
    [[unroll]] for (int s = 0; s < TN4; s++) {
        [[unroll]] for (int r = 0; r < TM * GROUPS; r++)
            tile_a[(share * TM * GROUPS + r) * members + member] = sum[r][s];
        barrier();
        [[unroll]] for (int r = 0; r < TM; r++) {
            own[r][s] = vec4(0.0);
            [[unroll]] for (int g = 0; g < GROUPS; g++) own[r][s] +=
                tile_a[((g * GROUPS + share) * TM + r) * members + member];
        }
        barrier();
    }
}

/* own = the product over summands from .. to - 1 of the lines that the loads take. */
void block_multiply(int from, int to, out vec4 own[TM][TN4])
{
    vec4 sum[TM * GROUPS][TN4];
    [[unroll]] for (int r = 0; r < TM * GROUPS; r++) [[unroll]] for (int s = 0; s < TN4; s++)
        sum[r][s] = vec4(0.0);
    load_a(from, to);
    load_b(from, to);
    block_stage(0, from, to);
    barrier();
    int stage = 0, slice = SLICE > 0 ? SLICE : BK / GROUPS * int(gl_NumWorkGroups.z); /* z is 1 */
    for (int k = from; k < to; k += BK) {
        bool more = k + BK < to;
        if (more) {
            load_a(k + BK, to);
            load_b(k + BK, to);
        }
        int first = stage * BK + share * (BK / GROUPS), at_a = first * LINE_A,
            at_b = first * LINE_B;
        [[unroll]] for (int p = 0; p < slice; p++) { /* of 16, which SWIZZLE() begins anew with */
            vec4 a[TM * GROUPS / 4], b[TN / 4];
            [[unroll]] for (int g = 0; g < TM * GROUPS / 4; g++)
                a[g] = tile_a[at_a + p * LINE_A + g * GROUP_A + (group_a ^ SWIZZLE(p))];
            [[unroll]] for (int g = 0; g < TN / 4; g++) b[g] =
                tile_b[at_b + p * LINE_B + g * GROUP_B + (group_b ^ SWIZZLE(p))];
            [[unroll]] for (int r = 0; r < TM * GROUPS; r++)
                [[unroll]] for (int s = 0; s < TN4; s++) sum[r][s] =
                    fma(vec4(a[r / 4][r % 4]), b[s], sum[r][s]);
        }
        stage ^= 1;
        if (more) block_stage(stage, k + BK, to);
        barrier();
    }
#if GROUPS > 1
    add_groups(sum, own);
#else
    own = sum;
#endif
}

/* Row and first column of sum[r][s] within the block. */
int block_row(int r)
{
    r += share * TM;
    return (r / 4 * GROUP_A + group_a) * 4 + r % 4;
}
int block_column(int s) { return (s * GROUP_B + group_b) * 4; }

#define ARRIVED tile_a[0].x
#endif

#include "linear_order.glsl"

/* ---- parts: each writes its sums, and the workgroup that comes last adds them up in the order of
 * the parts ---- */

layout(std430, binding = 4) coherent buffer Parts { vec4 partial[]; };
layout(std430, binding = 5) coherent buffer Arrivals
{
    int arrivals[];
};                                                       /* zero before and after */
#define PARTS_ABREAST ((16 + TM * TN4 - 1) / (TM * TN4)) /* whose loads may be under way together */
#define EACH_SUM(statement)                                                                        \
    [[unroll]] for (int r = 0; r < TM; r++) [[unroll]] for (int s = 0; s < TN4; s++) statement;
#define SUM_AT(first) partial[(first) + (r * TN4 + s) * THREADS]

/* This workgroup has number `index` of `count` sums, which lie `stride` vectors apart from `first`
 * on. Whether it is the last one to arrive at the counter: then sum is that of all. */
bool block_add(int counter, int first, int stride, int index, int count, inout vec4 sum[TM][TN4])
{
    EACH_SUM(SUM_AT(first + index * stride) = sum[r][s])
    memoryBarrierBuffer();
    barrier();
    /* The number goes round in memory that is there anyway: the largest tile takes all that many
     * devices have. */
    if (thread == 0) ARRIVED = float(atomicAdd(arrivals[counter], 1));
    barrier();
    if (int(ARRIVED) != count - 1) return false;
    memoryBarrierBuffer();
    if (thread == 0) arrivals[counter] = 0;
    EACH_SUM(sum[r][s] = vec4(0.0))
    for (int i = 0; i < count; i += PARTS_ABREAST)
        [[unroll]] for (int q = 0; q < PARTS_ABREAST; q++) {
            int at = first + min(i + q, count - 1) * stride;
            bool there = i + q < count;
            EACH_SUM(sum[r][s] += mix(vec4(0.0), SUM_AT(at), bvec4(there)))
        }
    barrier(); /* the number has been read */
    return true;
}

/* The same for the parts of tile `tile`: neighbours by groups, then the groups, so that many parts
 * wait for few additions. */
bool block_add_parts(int tile, int part, int parts, int parts_of_group, inout vec4 sum[TM][TN4])
{
    int groups = (parts + parts_of_group - 1) / parts_of_group, group = part / parts_of_group,
        size = BM * BN / 4;
    int first = tile * parts * size + thread, counter = tile * (groups > 1 ? groups + 1 : 1),
        from = group * parts_of_group;
    if (!block_add(counter + group, first + from * size, size, part - from,
                   min(parts_of_group, parts - from), sum))
        return false;
    return groups == 1 ||
           block_add(counter + groups, first, parts_of_group * size, group, groups, sum);
}

/* ---- operands in memory ---- */

/* Declares a buffer that is read by BLOCK_ELEMENT(), and by BLOCK_VECTOR() in vectors of four. An
 * operand that is `narrow` is stored in 16 bits: of its vectors these are the words, for WIDEN_A
 * and WIDEN_B. */
#ifdef COOPERATIVE
#define BLOCK_OPERAND(name, number)                                                                \
    layout(std430, binding = number) readonly buffer Elements_##name                               \
    {                                                                                              \
        OPERAND name[];                                                                            \
    };                                                                                             \
    layout(std430, binding = number) readonly buffer Vectors_##name                                \
    {                                                                                              \
        OPERAND4 name##4 [];                                                                       \
    };
#define BLOCK_ELEMENT(buffer, narrow, at) buffer[at]
#define BLOCK_VECTOR(buffer, narrow, at) buffer##4[at]
#define BLOCK_BIASES layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
#else
float block_half(uint word, int at)
{
    return rf_widen_one(TYPE, (at & 1) == 0 ? word & 0xffffu : word >> 16);
}
vec4 block_words(uvec2 words) { return vec4(uintBitsToFloat(words), 0.0, 0.0); }
#define BLOCK_OPERAND(name, number)                                                                \
    layout(std430, binding = number) readonly buffer Floats_##name                                 \
    {                                                                                              \
        float name[];                                                                              \
    };                                                                                             \
    layout(std430, binding = number) readonly buffer Vectors_##name                                \
    {                                                                                              \
        vec4 name##4 [];                                                                           \
    };                                                                                             \
    layout(std430, binding = number) readonly buffer Words_##name                                  \
    {                                                                                              \
        uint name##_w[];                                                                           \
    };                                                                                             \
    layout(std430, binding = number) readonly buffer Halves_##name                                 \
    {                                                                                              \
        uvec2 name##_h[];                                                                          \
    };
#define BLOCK_ELEMENT(buffer, narrow, at)                                                          \
    ((narrow) ? block_half(buffer##_w[(at) >> 1], at) : buffer[at])
#define BLOCK_VECTOR(buffer, narrow, at) ((narrow) ? block_words(buffer##_h[at]) : buffer##4[at])
#define BLOCK_BIASES BLOCK_OPERAND(bias, 2)
#endif

/*
 * Defines name_start(), to be called first, load_name() and settle_name(): `buffer` is a
 * BLOCK_OPERAND, `lines` the lines of a slice, `vector` whether all lines start at multiples of
 * four. Beyond the matrix the last line stands for those that are not there: what comes of them is
 * not stored. For summands that are not there any other is loaded.
 */
#define BLOCK_MATRIX(name, buffer, narrow, r, loads, lines, along, vector)                         \
    int name##_at[loads]; /* element or vector of the next slice */                                \
    int name##_step, name##_more[4];                                                               \
    void name##_start(int base, int line_size, int first, int count, int from)                     \
    {                                                                                              \
        int unit = vector ? 4 : 1;                                                                 \
        [[unroll]] for (int i = 0; i < loads; i++)                                                 \
        {                                                                                          \
            int line = first + LINE_OF(i, along, lines), p = from + K_OF(i, along, lines);         \
            if (along)                                                                             \
                name##_at[i] = (base + min(line, count - 1) * line_size + p) / unit;               \
            else                                                                                   \
                name##_at[i] =                                                                     \
                    (base + p * line_size + min(line, vector ? count - 4 : count - 1)) / unit;     \
        }                                                                                          \
        int left = count - 1 - min(first + LINE_OF(0, along, lines), count - 1);                   \
        [[unroll]] for (int j = 0; j < 4; j++) name##_more[j] = along ? j : min(j, left);          \
        name##_step = (along ? BK : BK * line_size) / unit;                                        \
    }                                                                                              \
    void load_##name(int k, int to)                                                                \
    {                                                                                              \
        [[unroll]] for (int i = 0; i < loads; i++)                                                 \
        {                                                                                          \
            int left = to - k - K_OF(i, along, lines);                                             \
            if (vector)                                                                            \
                r[i] = BLOCK_VECTOR(buffer, narrow, left > 0 ? name##_at[i] : 0);                  \
            else [[unroll]]                                                                        \
                for (int j = 0; j < 4; j++)                                                        \
                    r[i][j] =                                                                      \
                        BLOCK_ELEMENT(buffer, narrow,                                              \
                                      left > (along ? j : 0) ? name##_at[i] + name##_more[j] : 0); \
            name##_at[i] += name##_step;                                                           \
        }                                                                                          \
    }                                                                                              \
    void settle_##name(int k, int to)                                                              \
    {                                                                                              \
        if (k + BK > to) [[unroll]]                                                                \
            for (int i = 0; i < loads; i++)                                                        \
                [[unroll]] for (int j = 0; j < 4; j++) if (k + K_OF(i, along, lines) +             \
                                                               (along && !(vector) ? j : 0) >=     \
                                                           to) r[i][j] = OPERAND(0);               \
    }
