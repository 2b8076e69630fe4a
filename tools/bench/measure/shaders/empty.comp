/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing: what a dispatch costs by itself. */
#version 450
layout(local_size_x_id = 0) in;

void main() {}
