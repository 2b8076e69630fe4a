// SPDX-License-Identifier: Apache-2.0
// What the pooling kernels share: sizes, and the place of an invocation in an image of rows x
// columns x channels. Workgroups
// run along one image in x and over images in y. VEC4: sizes, channels and elements count in fours.
#ifndef RF_POOL_GLSL
#define RF_POOL_GLSL

#include "include/narrow.glsl"
#include "include/scalar_math.glsl"

layout(local_size_x_id = 0) in;
#ifdef FIXED
// Window and stride are part of the pipeline, so that loops have fixed lengths and divisions are
// multiplications. Zeros leave them to the
// push constants: a driver that unrolls a loop over a large window runs out of registers.
layout(constant_id = 1) const int fixed_window_height = 0;
layout(constant_id = 2) const int fixed_window_width = 0;
layout(constant_id = 3) const int fixed_stride_height = 0;
layout(constant_id = 4) const int fixed_stride_width = 0;
#define RF_SIDE(name) (fixed_##name != 0 ? fixed_##name : pushed_##name)
#define window_height RF_SIDE(window_height)
#define window_width RF_SIDE(window_width)
#define stride_height RF_SIDE(stride_height)
#define stride_width RF_SIDE(stride_width)
#define SIDES pushed_window_height, pushed_window_width, pushed_stride_height, pushed_stride_width
#else
#define SIDES window_height, window_width, stride_height, stride_width
#endif

#ifdef VEC4
#define T vec4
#define EQ(a, b) equal(a, b)
#define GT(a, b) greaterThan(a, b)
#define INT ivec4
#define BOOL bvec4
#define OR(a, b) bvec4((a).x || (b).x, (a).y || (b).y, (a).z || (b).z, (a).w || (b).w)
#else
#define T float
#define EQ(a, b) ((a) == (b))
#define GT(a, b) ((a) > (b))
#define INT int
#define BOOL bool
#define OR(a, b) ((a) || (b))
#endif

// A tensor that is read, and an element of it. With VEC4 all tensors may be stored in 16 bits.
#ifdef VEC4
layout(constant_id = 5) const uint TYPE = 0;
#endif
#ifdef VEC4
#define POOL_INPUT(number, block, name)                                                            \
    layout(std430, binding = number) readonly buffer block { vec4 name[]; };                       \
    layout(std430, binding = number) readonly buffer block##Halves { uvec2 name##_h[]; };
#define POOL_READ(name, i) (TYPE == 0u ? name[i] : rf_widen(TYPE, name##_h[i]))
#else
#define POOL_INPUT(number, block, name) layout(std430, \
    binding = number) readonly buffer block { float name[]; };
#define POOL_READ(name, i) name[i]
#endif
// The one that is written.
#ifdef VEC4
#define POOL_OUTPUT(number, name)                                                                  \
    layout(std430, binding = number) writeonly buffer Output { vec4 name[]; };                     \
    layout(std430, binding = number) writeonly buffer OutputHalves { uvec2 name##_h[]; };
#define POOL_WRITE(name, i, value)                                                                 \
    {                                                                                              \
        if (TYPE == 0u) name[i] = value;                                                           \
        else name##_h[i] = rf_narrow(TYPE, value);                                                 \
    }
#else
#define POOL_OUTPUT(number, name) layout(std430, binding = number) writeonly buffer Output { \
    float name[]; };
#define POOL_WRITE(name, i, value) name[i] = value;
#endif

// Whether v takes the place of the maximum so far: it is greater, or NaN; of several NaN the last
// does.
BOOL rf_takes_place(T v, T best)
{
    const BOOL is_greater = GT(v, best), is_nan = GT(floatBitsToInt(v) & INT(0x7fffffff),
        INT(0x7f800000));
    return OR(is_greater, is_nan);
}

layout(push_constant) uniform Push {
    uint images;
    int height, width, channels, out_height, out_width, SIDES, pad_top, pad_left;
    float per_channels, per_columns; // 1 / channels, 1 / columns of what invocations stand for
    uint relu_mask;
#ifdef PARTS
    // of the windows that cover an element: those that this dispatch takes
    int first_line, end_line;
#endif
};

// n / d. With VEC4 n is below 2^22: then rounding puts the product at most one off, and no slow
// integer division is needed.
uint rf_quotient(uint n, uint d, float per_d)
{
#ifdef VEC4
    uint q = uint(float(n) * per_d);
    if (q * d > n) q--;
    if (n - q * d >= d) q++;
    return q;
#else
    return n / d;
#endif
}

struct Place {
    bool inside;
    int row, column, channel;
};

// Invocations stand for rows x columns x channels of an image.
Place rf_place(int rows, int columns)
{
    const uint i = gl_GlobalInvocationID.x;
    const uint pixel = rf_quotient(i, uint(channels), per_channels);
    const uint row = rf_quotient(pixel, uint(columns), per_columns);
    return Place(i < uint(rows * columns * channels), int(row), int(pixel - row * uint(columns)),
                 int(i - pixel * uint(channels)));
}

int rf_image()
{
    return int(gl_WorkGroupID.y);
}

// Element of the pooled and of the unpooled tensor.
int rf_out_at(int row, int column, int channel)
{
    return ((rf_image() * out_height + row) * out_width + column) * channels + channel;
}
int rf_in_at(int row, int column, int channel)
{
    return ((rf_image() * height + row) * width + column) * channels + channel;
}

// Whether window i is there and covers a row or column, which lies behind its begin.
bool rf_covers(int i, int at, int pad, int window, int stride, int count)
{
    return i >= 0 && i < count && at < i * stride - pad + window;
}

// The lines of a window, counted from its begin, that are walked. With FIXED all are, and what lies
// in the padding is read from the edge:
// no branch, and the same element is not greater than itself.
#ifdef FIXED
#define RF_LINES(begin, window, size) ivec2(0, window)
#define RF_LINE(at, size) clamp(at, 0, (size) - 1)
#else
#define RF_LINES(begin, window, size) ivec2(max(-(begin), 0), min(window, (size) - (begin)))
#define RF_LINE(at, size) (at)
#endif

// Windows that cover a row or column: first and one past the last.
ivec2 rf_windows(int at, int window, int stride, int count)
{
    return ivec2(max(at - window + stride, 0) / stride, min(at / stride + 1, count));
}

#endif
