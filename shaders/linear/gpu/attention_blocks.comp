// SPDX-License-Identifier: Apache-2.0
/*
 * Attention for devices with shared memory: a workgroup keeps a tile of ROWS rows in shared memory
 * and the sums that they get in registers, and walks the rows of the other side COLUMNS at a time.
 * Scores are never written whole (Dao 2023; the running maximum and sum are those of Milakov and
 * Gimelshein 2018). No assumption on subgroups.
 *   FORWARD: rows are queries, the others keys and then, in the same place, values
 *   QUERIES: rows are queries and slopes of the output, the others keys and values; makes slope .
 *   output of each query, which KEYS reads, and the gradient of queries
 *   KEYS: rows are keys and values, the others queries and slopes; makes the gradients of both
 * Build variants: DEPTH columns, to which widths are padded, RY x CX invocations of four rows and
 * SJ scores each. Where gradients are made, a first half of the invocations multiplies queries by
 * keys and turns the products into weights, a second one slopes by values, and both do so by the
 * same instructions: what differs is where their operands lie. Then each half makes a gradient of
 * its own, or adds up its share of the keys. Widths are multiples of four. All sums have an order
 * of their own: results are the same each time. The largest score of each query and the logarithm
 * of the sum of exponentials of what the others lack to it are kept, each by itself: of their sum
 * large scores would leave no digits to the second one. Scores are made by the same arithmetic in
 * all passes, and are `precise`, so that no compiler takes the largest off a product that is not
 * rounded.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/scalar_math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool CAUSAL = false;
/* 1: there is a mask, 2: one that tells keys apart alone */
layout(constant_id = 2) const int MASKED = 0;
/* the next tile comes to registers while one is multiplied */
layout(constant_id = 3) const bool EARLY = true;
layout(constant_id = 4) const int K4 = 1;        /* widths / 4 */
layout(constant_id = 5) const int V4 = 1;

layout(push_constant) uniform Push {
    int total, items, tiles, queries, keys;
    int last_key; /* of query 0: causal */
    float scale;
    /* strides, 0 where the mask has one for all */
    int heads, mask_item, mask_head, mask_query, mask_key;
};

#define LOWEST -3.4e38
#define NOTHING 1e30 /* in place of the sum's logarithm: all weights are 0 */
#define ROWS (4 * RY)
#define COLUMNS (SJ * CX)
#define D4 (DEPTH / 4)
#define FOURS (D4 / CX) /* columns / 4 of an invocation */
#define P4 (COLUMNS / 4)
#define MEMBERS (RY * CX)
#ifdef FORWARD
#define GROUPS 1
#define PARTS (ROWS * CX)
#else
#define GROUPS 2
#define SHARE (CX / 2) /* invocations of a row, for its sum */
#define PARTS (ROWS * SHARE)
#endif
#define THREADS (GROUPS * MEMBERS)

#if defined FORWARD
layout(std430, binding = 0) readonly buffer Queries { vec4 query[]; };
layout(std430, binding = 1) readonly buffer Keys { vec4 key[]; };
layout(std430, binding = 2) readonly buffer Values { vec4 value[]; };
layout(std430, binding = 3) readonly buffer Mask { float mask[]; };
layout(std430, binding = 4) writeonly buffer Output { vec4 result[]; };
layout(std430, binding = 5) writeonly buffer Sums { vec2 sums[]; };
#define ROW_SIDE queries
#define OTHER_SIDE keys
#else
layout(std430, binding = 0) readonly buffer Slopes { vec4 slope[]; };
layout(std430, binding = 1) readonly buffer Queries { vec4 query[]; };
layout(std430, binding = 2) readonly buffer Keys { vec4 key[]; };
layout(std430, binding = 3) readonly buffer Values { vec4 value[]; };
layout(std430, binding = 4) readonly buffer Sums { vec2 sums[]; };
layout(std430, binding = 5) readonly buffer Mask { float mask[]; };
#ifdef QUERIES
layout(std430, binding = 6) readonly buffer Output { vec4 result[]; };
layout(std430, binding = 7) writeonly buffer Delta { float delta[]; };
layout(std430, binding = 8) writeonly buffer First { vec4 first[]; };
#define ROW_SIDE queries
#define OTHER_SIDE keys
#define ROW_1 query
#define ROW_2 slope
#define OTHER_1 key
#define OTHER_2 value
#else
layout(std430, binding = 6) readonly buffer Delta { float delta[]; };
layout(std430, binding = 7) writeonly buffer First { vec4 first[]; };
layout(std430, binding = 8) writeonly buffer Second { vec4 second[]; };
#define ROW_SIDE keys
#define OTHER_SIDE queries
#define ROW_1 key
#define ROW_2 value
#define OTHER_1 query
#define OTHER_2 slope
#endif
#endif

/* Vectors of neighbouring rows, and of neighbouring others, stand in another order, so that
 * neighbours that read the same vector of theirs meet in no bank. Numbers of rows are 0 .. RY -
 * 1 for an invocation's first, and so on by RY, of others by CX. */
shared vec4 own[GROUPS * ROWS * D4];
shared vec4 other[GROUPS * COLUMNS * D4];
shared vec4 weights[GROUPS * ROWS * P4];
shared float part[PARTS];

int thread = int(gl_LocalInvocationID.x);
int half_of = thread / MEMBERS, member = thread % MEMBERS, ry = member / CX, cx = member % CX;

#define OWN_AT(row, d) ((row) * D4 + ((d) ^ ((row) % RY & 7)))
#define OTHER_AT(row, d) ((row) * D4 + ((d) ^ ((row) % CX & 7)))
#define WEIGHT_AT(row, p) ((row) * P4 + ((p) ^ ((row) % RY * 2 & (P4 - 1))))

/* A tile's rows from number `from` on, of which those beyond the end are the last one once more:
 * nothing comes of them. Columns beyond the width are made zeros when the tile is put down, when
 * products that this one's loads stand behind are done. */
#define TILE_LOADS(rows) ((rows) * D4 / THREADS)
#define LOAD_TILE(held, rows, buffer, at, from, count, width)                                      \
    [[unroll]] for (int i = 0; i < TILE_LOADS(rows); i++) {                                        \
        int e = thread + i * THREADS;                                                              \
        held[i] = buffer[(at + min(from + e / D4, count - 1)) * width + min(e % D4, width - 1)];   \
    }
#define PUT_TILE(held, rows, tile, base, place, width)                                             \
    [[unroll]] for (int i = 0; i < TILE_LOADS(rows); i++) {                                        \
        int e = thread + i * THREADS;                                                              \
        tile[base + place(e / D4, e % D4)] = mix(vec4(0.0), held[i], bvec4(e % D4 < width));       \
    }

/* Products of own rows and others over `depth` vectors. */
void multiply(int own_base, int other_base, int depth, out float s[4][SJ])
{
    [[unroll]] for (int i = 0; i < 4; i++) [[unroll]] for (int c = 0; c < SJ; c++) s[i][c] = 0.0;
    int own_at = own_base + ry * D4, other_at = other_base + cx * D4, own_turn = ry & 7,
        other_turn = cx & 7;
    for (int d = 0; d < depth; d += 4)
        [[unroll]] for (int q = 0; q < 4; q++) {
            vec4 a[4], b[SJ];
            [[unroll]] for (int i = 0; i < 4; i++)
                a[i] = own[own_at + ((d + q) ^ own_turn) + i * RY * D4];
            [[unroll]] for (int c = 0; c < SJ; c++)
                b[c] = other[other_at + ((d + q) ^ other_turn) + c * CX * D4];
            [[unroll]] for (int e = 0; e < 4; e++)
                [[unroll]] for (int i = 0; i < 4; i++)
                    [[unroll]] for (int c = 0; c < SJ; c++)
                        s[i][c] = fma(a[i][e], b[c][e], s[i][c]);
        }
}

/* sum += weights of own rows * others, from .. to - 1, of which there are multiples of eight. */
void add_weighted(int weight_base, int other_base, int from, int to, inout vec4 sum[4][FOURS])
{
    int weight_at = weight_base + ry * P4, turn = ry * 2 & (P4 - 1);
    for (int j = from; j < to; j += 8)
        [[unroll]] for (int q = 0; q < 8; q += 4) {
            vec4 w[4];
            [[unroll]] for (int i = 0; i < 4; i++)
                w[i] = weights[weight_at + ((j + q) / 4 ^ turn) + i * RY * P4];
            [[unroll]] for (int e = 0; e < 4; e++) {
                vec4 x[FOURS];
                [[unroll]] for (int c = 0; c < FOURS; c++)
                    x[c] = other[other_base + (j + q + e) * D4 + (cx ^ (q + e)) + c * CX];
                [[unroll]] for (int i = 0; i < 4; i++)
                    [[unroll]] for (int c = 0; c < FOURS; c++)
                        sum[i][c] = fma(vec4(w[i][e]), x[c], sum[i][c]);
            }
        }
}

void put_weight(int base, int row, int column, float x)
{
    weights[base + WEIGHT_AT(row, column / 4)][column % 4] = x;
}

/* Whether own row and other, numbers within the item, make a pair that counts; `mask_at`: where
 * the item's mask begins. */
bool is_masked(int mask_at, int q, int k)
{
    int at = mask_at + (MASKED == 1 ? min(q, queries - 1) * mask_query : 0) +
        min(k, keys - 1) * mask_key;
    return (floatBitsToUint(mask[at]) & 0x7fffffffu) == 0u;
}
#ifdef KEYS
#define QUERY_OF(row, column) (column)
#define KEY_OF(row, column) (row)
#else
#define QUERY_OF(row, column) (row)
#define KEY_OF(row, column) (column)
#endif

/* live[i][c] of a tile of others that begins at `from`. */
void find_live(int mask_at, int row, int from, out bool live[4][SJ])
{
    [[unroll]] for (int c = 0; c < SJ; c++) {
        int column = from + cx + c * CX;
        bool there = column < OTHER_SIDE;
#ifndef KEYS
        if (MASKED == 2) there = there && !is_masked(mask_at, 0, column);
#endif
        [[unroll]] for (int i = 0; i < 4; i++) {
            int r = row + i * RY;
            live[i][c] = there && (!CAUSAL || KEY_OF(r, column) <= QUERY_OF(r, column) + last_key);
#ifdef KEYS
            if (MASKED != 0) live[i][c] = live[i][c] && !is_masked(mask_at, column, r);
#else
            if (MASKED == 1) live[i][c] = live[i][c] && !is_masked(mask_at, r, column);
#endif
        }
    }
}

void main()
{
    int number = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
    if (number >= total) return;
    /* Where order counts, those with most to do come first. */
    int tile = number / items, item = number - tile * items;
#ifdef KEYS
    int start = tile * ROWS, from = CAUSAL ? max(start - last_key, 0) / COLUMNS * COLUMNS : 0,
        end = queries;
#else
    if (CAUSAL) tile = tiles - 1 - tile;
    int start = tile * ROWS, from = 0, end = CAUSAL ? min(start + ROWS + last_key, keys) : keys;
#endif
    int rows_at = item * ROW_SIDE, others_at = item * OTHER_SIDE, row = start + ry;
    int mask_at = item / heads * mask_item + item % heads * mask_head;
    vec4 sum[4][FOURS];
    float s[4][SJ];
    bool live[4][SJ];
    [[unroll]] for (int i = 0; i < 4; i++) [[unroll]] for (int c = 0; c < FOURS; c++)
        sum[i][c] = vec4(0.0);
    vec4 held_own[TILE_LOADS(ROWS)];
#ifdef FORWARD
    LOAD_TILE(held_own, ROWS, query, rows_at, start, queries, K4)
    PUT_TILE(held_own, ROWS, own, 0, OWN_AT, K4)
    float most[4], total_of[4];
    [[unroll]] for (int i = 0; i < 4; i++) {
        most[i] = LOWEST;
        total_of[i] = 0.0; /* of this invocation's columns */
    }
    vec4 held[TILE_LOADS(COLUMNS)];
    LOAD_TILE(held, COLUMNS, key, others_at, from, keys, K4)
    PUT_TILE(held, COLUMNS, other, 0, OTHER_AT, K4)
    barrier();
    for (int j = from; j < end; j += COLUMNS) {
        if (EARLY) { LOAD_TILE(held, COLUMNS, value, others_at, j, keys, V4) }
        multiply(0, 0, K4 + 3 & ~3, s);
        find_live(mask_at, row, j, live);
        [[unroll]] for (int i = 0; i < 4; i++) {
            float largest = LOWEST;
            [[unroll]] for (int c = 0; c < SJ; c++) {
                precise float scaled = s[i][c] * scale;
                s[i][c] = scaled;
                /* a NaN comes back as a weight */
                largest = live[i][c] ? max(largest, s[i][c]) : largest;
            }
            part[(ry + i * RY) * CX + cx] = largest;
        }
        barrier();
        if (!EARLY) { LOAD_TILE(held, COLUMNS, value, others_at, j, keys, V4) }
        PUT_TILE(held, COLUMNS, other, 0, OTHER_AT, V4)
        [[unroll]] for (int i = 0; i < 4; i++) {
            float largest = most[i];
            [[unroll]] for (int c = 0; c < CX; c++)
                largest = max(largest, part[(ry + i * RY) * CX + c]);
            float shrink = rf_exp(most[i] - largest);
            most[i] = largest;
            total_of[i] *= shrink;
            [[unroll]] for (int c = 0; c < SJ; c++) {
                float weight = live[i][c] ? rf_exp(s[i][c] - largest) : 0.0;
                total_of[i] += weight;
                put_weight(0, ry + i * RY, cx + c * CX, weight);
            }
            [[unroll]] for (int c = 0; c < FOURS; c++) sum[i][c] *= shrink;
        }
        barrier();
        if (EARLY) { LOAD_TILE(held, COLUMNS, key, others_at, j + COLUMNS, keys, K4) }
        add_weighted(0, 0, 0, COLUMNS, sum);
        barrier();
        if (!EARLY) { LOAD_TILE(held, COLUMNS, key, others_at, j + COLUMNS, keys, K4) }
        PUT_TILE(held, COLUMNS, other, 0, OTHER_AT, K4)
        barrier();
    }
    [[unroll]] for (int i = 0; i < 4; i++) part[(ry + i * RY) * CX + cx] = total_of[i];
    barrier();
    [[unroll]] for (int i = 0; i < 4; i++) {
        float all = 0.0;
        [[unroll]] for (int c = 0; c < CX; c++) all += part[(ry + i * RY) * CX + c];
        int r = row + i * RY;
        float inverse = all == 0.0 ? 0.0 : 1.0 / all; /* 0: the query attends to nothing */
        [[unroll]] for (int c = 0; c < FOURS; c++)
            if (r < queries && cx + c * CX < V4)
                result[(rows_at + r) * V4 + cx + c * CX] = sum[i][c] * inverse;
        /* A NaN among the scores is not the largest: it is seen in the sum. */
        if (r < queries && cx == 0)
            sums[rows_at + r] = all == 0.0 ? vec2(0.0, NOTHING)
                : vec2(isnan(all) ? all : most[i], rf_log(all));
    }
#else
    LOAD_TILE(held_own, ROWS, ROW_1, rows_at, start, ROW_SIDE, K4)
    PUT_TILE(held_own, ROWS, own, 0, OWN_AT, K4)
    LOAD_TILE(held_own, ROWS, ROW_2, rows_at, start, ROW_SIDE, V4)
    PUT_TILE(held_own, ROWS, own, ROWS * D4, OWN_AT, V4)
    /* These are taken off before exp, and off the product of slope and value. */
    float off[4];
#ifdef QUERIES
    {
        int r = thread / SHARE, at = rows_at + min(start + r, queries - 1);
        float through = 0.0;
        for (int d = thread % SHARE; d < V4; d += SHARE) {
            vec4 product = slope[at * V4 + d] * result[at * V4 + d];
            through += product.x + product.y + product.z + product.w;
        }
        part[thread] = through;
        barrier();
        [[unroll]] for (int i = 0; i < 4; i++) {
            int r = ry + i * RY, at = rows_at + min(start + r, queries - 1);
            float through = 0.0;
            [[unroll]] for (int p = 0; p < SHARE; p++) through += part[r * SHARE + p];
            if (cx == 0 && half_of == 1 && start + r < queries) delta[at] = through;
            float largest = sums[at].x;
            off[i] = half_of == 0 ? largest : through;
        }
        barrier();
        if (thread < ROWS) part[thread] = sums[rows_at + min(start + thread, queries - 1)].y;
    }
#else
    float held_off;
#define LOAD_OFF(from)                                                                             \
    {                                                                                              \
        int at = others_at + min((from) + thread % COLUMNS, queries - 1);                          \
        vec2 of_query = sums[at];                                                                  \
        float through = delta[at];                                                                 \
        held_off = thread < COLUMNS ? of_query.x : thread < 2 * COLUMNS ? of_query.y : through;    \
    }
#define PUT_OFF if (thread < 3 * COLUMNS) part[thread] = held_off;
    LOAD_OFF(from)
    PUT_OFF
#endif
    vec4 held_1[TILE_LOADS(COLUMNS)], held_2[TILE_LOADS(COLUMNS)];
#define LOAD_OTHERS(from)                                                                          \
    LOAD_TILE(held_1, COLUMNS, OTHER_1, others_at, from, OTHER_SIDE, K4)                           \
    LOAD_TILE(held_2, COLUMNS, OTHER_2, others_at, from, OTHER_SIDE, V4)
#define PUT_OTHERS                                                                                 \
    PUT_TILE(held_1, COLUMNS, other, 0, OTHER_AT, K4)                                              \
    PUT_TILE(held_2, COLUMNS, other, COLUMNS * D4, OTHER_AT, V4)
    LOAD_OTHERS(from)
    PUT_OTHERS
    barrier();
    int depth = (half_of == 0 ? K4 : V4) + 3 & ~3;
    for (int j = from; j < end; j += COLUMNS) {
        if (EARLY) {
            LOAD_OTHERS(j + COLUMNS)
#ifdef KEYS
            LOAD_OFF(j + COLUMNS)
#endif
        }
        multiply(half_of * ROWS * D4, half_of * COLUMNS * D4, depth, s);
        if (half_of == 0) {
            find_live(mask_at, row, j, live);
            [[unroll]] for (int i = 0; i < 4; i++)
                [[unroll]] for (int c = 0; c < SJ; c++) {
                    precise float scaled = s[i][c] * scale;
#ifdef KEYS
                    float below = scaled - part[cx + c * CX] - part[COLUMNS + cx + c * CX];
#else
                    float below = scaled - off[i] - part[ry + i * RY];
#endif
                    put_weight(0, ry + i * RY, cx + c * CX, live[i][c] ? rf_exp(below) : 0.0);
                }
        }
        barrier();
        if (half_of == 1) {
            [[unroll]] for (int i = 0; i < 4; i++)
                [[unroll]] for (int c = 0; c < SJ; c++) {
                    int r = ry + i * RY, column = cx + c * CX;
#ifdef KEYS
                    float through = part[2 * COLUMNS + column];
#else
                    float through = off[i];
#endif
                    float weight = weights[WEIGHT_AT(r, column / 4)][column % 4];
                    put_weight(ROWS * P4, r, column, weight * (s[i][c] - through) * scale);
                }
        }
        barrier();
#ifdef KEYS
        add_weighted(half_of * ROWS * P4, (1 - half_of) * COLUMNS * D4, 0, COLUMNS, sum);
#else
        add_weighted(ROWS * P4, 0, half_of * (COLUMNS / 2), (half_of + 1) * (COLUMNS / 2), sum);
#endif
        barrier();
        if (!EARLY) {
            LOAD_OTHERS(j + COLUMNS)
#ifdef KEYS
            LOAD_OFF(j + COLUMNS)
#endif
        }
        PUT_OTHERS
#ifdef KEYS
        PUT_OFF
#endif
        barrier();
    }
#ifdef KEYS
    [[unroll]] for (int i = 0; i < 4; i++) {
        int r = row + i * RY;
        [[unroll]] for (int c = 0; c < FOURS; c++) {
            int d = cx + c * CX;
            if (r < keys && half_of == 1 && d < K4) first[(rows_at + r) * K4 + d] = sum[i][c];
            if (r < keys && half_of == 0 && d < V4) second[(rows_at + r) * V4 + d] = sum[i][c];
        }
    }
#else
    /* The second half's sums go where the rows were. */
    if (half_of == 1)
        [[unroll]] for (int i = 0; i < 4; i++)
            [[unroll]] for (int c = 0; c < FOURS; c++)
                own[(i * FOURS + c) * MEMBERS + member] = sum[i][c];
    barrier();
    [[unroll]] for (int i = 0; i < 4; i++) {
        int r = row + i * RY;
        [[unroll]] for (int c = 0; c < FOURS; c++) {
            int d = cx + c * CX;
            if (r < queries && half_of == 0 && d < K4)
                first[(rows_at + r) * K4 + d] = sum[i][c] + own[(i * FOURS + c) * MEMBERS + member];
        }
    }
#endif
#endif
}
