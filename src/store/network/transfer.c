/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/transfer.h"

#include <errno.h>
#include <sys/socket.h>

static kiln_status status_of(ssize_t count, size_t *ret_count)
{
    if (count > 0) {
        *ret_count = (size_t)count;
        return KILN_OK;
    }
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? KILN_BUSY
                                                                                    : KILN_E_IO;
}

kiln_status kilni_transfer_send(const kilni_owned_descriptor *file, const void *bytes, size_t size,
                                size_t *ret_count)
{
    return kilni_owned_descriptor_is_intact(file)
               ? status_of(send(file->file, bytes, size, MSG_NOSIGNAL), ret_count)
               : KILN_E_IO;
}

kiln_status kilni_transfer_receive(const kilni_owned_descriptor *file, void *bytes, size_t size,
                                   size_t *ret_count)
{
    return kilni_owned_descriptor_is_intact(file)
               ? status_of(recv(file->file, bytes, size, 0), ret_count)
               : KILN_E_IO;
}
