/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units on the command lines of `ringfire-bench`. Each is the whole text, or the parser says false. */
#ifndef RINGFIRE_BENCH_UNITS_H
#define RINGFIRE_BENCH_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of whole floats, 4 to 4G: "4096", "64K", "16M", "1G", each of 1,024 of the one before. */
bool parse_size(const char *text, uint64_t *bytes);
/* "100us", "2.5ms", "1s", "0": seconds, at most 1,000. */
bool parse_time(const char *text, double *seconds);
/* Bits as tc counts them, in thousands: "10mbit", "1gbit", "2.5gbit", 10kbit to 100000gbit; gives bytes a second. */
bool parse_rate(const char *text, double *bytes);
/* "64 KiB" of a whole number of them, else bytes. */
void print_size(char *out, unsigned room, uint64_t bytes);

#endif
