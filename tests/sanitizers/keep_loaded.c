/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the tests of builds with a sanitizer: no library is unloaded before the process ends. Memory that a
 * driver or a layer keeps can then still be told by the library's name when leaks are looked for, and suppressed by it
 * (leak.supp), whatever the processor makes a driver keep. Some versions of the Vulkan loader have a variable for this,
 * others have not. */
int dlclose(void *library);

int dlclose(void *library)
{
    (void)library;
    return 0;
}
