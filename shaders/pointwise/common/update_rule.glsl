/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of an update, at binding HYPER, and what RULE makes of four elements; update.comp
 * numbers the rules. NESTEROV is a constant of the shader. */
#if RULE != 4 && RULE != 12
layout(std430, binding = HYPER) readonly buffer Hyper {
    float rate, grad_scale, clip_value, weight_decay, beta_1, beta_2, correction_1, correction_2,
        epsilon, momentum, rho, gradient;
    float ratio, average, overwrite, skip, step_number;
} h;
/* The whole dispatch: nothing is written. */
#define SKIPS (h.skip >= 1.0)
#else
#define SKIPS false
#endif

void update(inout vec4 param, vec4 grad, inout vec4 slot0, inout vec4 slot1)
{
#if RULE == 4
    precise vec4 sum = param + grad;
    param = sum;
#elif RULE == 9
    precise vec4 u = (grad * h.correction_1) / (sqrt(slot0 * h.correction_2) + h.epsilon) +
        h.weight_decay * param;
    precise vec4 stepped = param - (h.rate * h.ratio) * u;
    param = stepped;
#elif RULE == 10
    precise vec4 mean = h.average * param + (1.0 - h.average) * grad;
    param = mean;
#elif RULE == 11
    param = mix(param, grad, bvec4(h.overwrite > 0.0));
#elif RULE == 12
    param = grad;
#elif RULE == 14
    precise vec4 x = param - h.weight_decay * param;
    precise vec4 stepped = x - h.rate * grad;
    param = stepped;
#else
    precise vec4 g = grad * h.grad_scale;
    g = mix(g, rf_clamp(g, -h.clip_value, h.clip_value), bvec4(h.clip_value > 0.0));
#if RULE == 8
    precise vec4 x = h.beta_1 * param + (1.0 - h.beta_1) * g;
    precise vec4 v = h.beta_2 * slot0 + (1.0 - h.beta_2) * (g * g);
    slot0 = v;
#elif RULE == 13
    precise vec4 m = h.momentum * slot0 + g;
    precise vec4 ahead = g + h.momentum * m;
    vec4 x = NESTEROV != 0u ? ahead : m;
    slot0 = m;
#else
    precise vec4 x = param - h.weight_decay * param;
#endif
#if RULE == 0
    x = x - h.rate * g;
#elif RULE == 1
    precise vec4 m = h.momentum * slot0 - h.rate * g;
    if (NESTEROV != 0u) x = x + (h.momentum * m - h.rate * g);
    else x = x + m;
    slot0 = m;
#elif RULE == 2
    precise vec4 m = h.beta_1 * slot0 + (1.0 - h.beta_1) * g;
    precise vec4 v = h.beta_2 * slot1 + (1.0 - h.beta_2) * (g * g);
    x = x - h.rate * (m * h.correction_1) / (sqrt(v * h.correction_2) + h.epsilon);
    slot0 = m;
    slot1 = v;
#elif RULE == 5
    precise vec4 s = slot0 + g * g;
    x = x - h.rate * g / sqrt(s + h.epsilon);
    slot0 = s;
#elif RULE == 6
    precise vec4 u = h.beta_1 * slot0 + (1.0 - h.beta_1) * g;
    precise vec4 m = h.beta_2 * slot0 + (1.0 - h.beta_2) * g;
    x = x - h.rate * rf_sign(u);
    slot0 = m;
#elif RULE == 7
    precise vec4 m = h.beta_1 * slot0 + (1.0 - h.beta_1) * g;
    precise vec4 v = h.beta_2 * slot1 + (1.0 - h.beta_2) * (g * g);
    x = x - h.rate * (m * h.correction_1 + g * h.gradient) / (sqrt(v * h.correction_2) + h.epsilon);
    slot0 = m;
    slot1 = v;
#elif RULE == 3
    precise vec4 s = h.rho * slot0 + (1.0 - h.rho) * (g * g);
    precise vec4 m = h.momentum * slot1 + h.rate * g / sqrt(s + h.epsilon);
    x = x - m;
    slot0 = s;
    slot1 = m;
#endif
    param = x;
#endif
}
