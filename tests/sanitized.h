/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this is a build with a sanitizer: those make everything several times slower, and keep memory of their own
 * and what was freed. */
#ifndef RF_TESTS_SANITIZED_H
#define RF_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
