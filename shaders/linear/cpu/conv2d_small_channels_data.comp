#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dy -> dx of convolutions with few input channels, kernels of K x K and steps of one: an
 * invocation takes one channel of TILE x TILE neighbouring pixels. It loads each pixel of dy that
 * they depend on once, and uses it for up to K x K products. FOURS: four channels of dy at once.
 */
#extension GL_EXT_control_flow_attributes : require
#define K 3
#define TILE 4
#define LINES (TILE + K - 1) /* of dy */
layout(local_size_x_id = 0) in;

layout(push_constant) uniform P {
    int images;
    int tiles, across;           /* of an image, of a line of it */
    int channels, vectors;       /* of dx; of dy, in loads */
    int in_h, in_w, out_h, out_w; /* of dy and of dx */
    int first_y, first_x;        /* what the last tap of the first pixel reads */
};

layout(binding = 0) uniform samplerBuffer dy;
layout(binding = 1) uniform samplerBuffer kernel;
layout(std430, binding = 2) writeonly buffer Dx { float dx[]; };

#ifdef FOURS
#define VEC vec4
#define LOAD(name, at) texelFetch(name, at)
#define SUM_OF_PRODUCTS(a, b) (a.x * b.x + a.y * b.y + (a.z * b.z + a.w * b.w))
#else
#define VEC float
#define LOAD(name, at) texelFetch(name, at).x
#define SUM_OF_PRODUCTS(a, b) (a * b)
#endif

void main()
{
    int t = int(gl_GlobalInvocationID.x), image = int(gl_WorkGroupID.y);
    int unit = t / channels, channel = t - unit * channels;
    /* all invocations take part: those beyond the end go with the last tile */
    bool live = unit < tiles;
    unit = min(unit, tiles - 1);
    int line = unit / across * TILE, column = (unit - unit / across * across) * TILE;
    int row_at[LINES], column_at[LINES]; /* -1: outside of dy */
    [[unroll]] for (int i = 0; i < LINES; i++) {
        int y = line + first_y + i, x = column + first_x + i;
        row_at[i] = uint(y) < uint(in_h) ? (image * in_h + y) * in_w * vectors : -1;
        column_at[i] = uint(x) < uint(in_w) ? x * vectors : -1;
    }
    float sum[TILE * TILE];
    [[unroll]] for (int i = 0; i < TILE * TILE; i++) sum[i] = 0.0;
    int v = 0;
    do { /* tests at its end: lavapipe would run the body of others once more */
        VEC f[K * K];
        [[unroll]] for (int k = 0; k < K * K; k++)
            f[k] = LOAD(kernel, (k * channels + channel) * vectors + v);
        [[unroll]] for (int r = 0; r < LINES; r++)
            [[unroll]] for (int c = 0; c < LINES; c++) {
                bool inside = (row_at[r] | column_at[c]) >= 0;
                VEC d = LOAD(dy, inside ? row_at[r] + column_at[c] + v : 0);
#ifdef FOURS
                d = mix(vec4(0.0), d, bvec4(inside));
#else
                d = inside ? d : 0.0;
#endif
                [[unroll]] for (int i = 0; i < TILE * TILE; i++) {
                    const int ky = K - 1 - (r - i / TILE), kx = K - 1 - (c - i % TILE);
                    if (ky >= 0 && ky < K && kx >= 0 && kx < K)
                        sum[i] += SUM_OF_PRODUCTS(d, f[ky * K + kx]);
                }
            }
        v++;
    } while (v < vectors);
    [[unroll]] for (int i = 0; i < TILE * TILE; i++) {
        int y = line + i / TILE, x = column + i % TILE;
        if (live && y < out_h && x < out_w)
            dx[((image * out_h + y) * out_w + x) * channels + channel] = sum[i];
    }
}
