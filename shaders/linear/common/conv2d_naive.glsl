/* SPDX-License-Identifier: Apache-2.0 */
/* Push constants of the convolution shaders that follow the definition directly. */
layout(push_constant) uniform P {
    int n, h, w, cin, oh, ow, cout, kh, kw;
    int cig, cog;              /* channels of one group */
    int sy, sx, dy, dx, pt, pl; /* stride, dilation, padding at the top and left */
    int total;                 /* elements to compute */
    int x_base, y_base, out_base, bias_base;
    int accumulate, last;      /* this part of the sum adds to what is there; is the last one */
    /* The part: of the kernel's rows, columns and channels; of output lines and columns for the
     * filter's gradient. */
    int from_y, to_y, from_x, to_x, from_c, to_c;
};
