/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 20000, NUM_PORTS = 12768, TRIES = 1000 };

bool free_ports(uint16_t *ports, uint32_t count)
{
    uint32_t offset = 0, found = 0;
    if (getrandom(&offset, sizeof(offset), 0) != sizeof(offset)) offset = (uint32_t)getpid();
    for (uint32_t i = 0; i < TRIES && found < count; i++) {
        const uint16_t port = (uint16_t)(FIRST + (offset % NUM_PORTS + i) % NUM_PORTS);
        const struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) return false;
        if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) ports[found++] = port;
        close(fd);
    }
    return found == count;
}
