/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of the code under test (linked with --wrap): counted, measured, and refused where the test says. */
#ifndef TEST_PERSIST_WRAPPED_H
#define TEST_PERSIST_WRAPPED_H

#include <stdint.h>

void wrapped_reset(uint64_t fail_at); /* the call that fails, from 1; 0: none */
uint64_t wrapped_calls(void);
uint64_t wrapped_peak(void); /* most bytes at one time since the reset, above those of then */
uint64_t wrapped_live(void); /* bytes now */

#endif
