/*
 * Waits of loops of events for records of tubes, and for changes of maps: see chappe_dispatch(3).
 *
 * A wait has the end of a named tube for itself, from the call that begins it until its callback is called or it is cancelled: until then other calls with
 * the handle, and its close, answer -EBUSY. Several waits have an end each (chappe_receiver_another). In a child that is forked meanwhile the end
 * stays the parent's: there the handle answers -EBUSY for good. An end of a private tube may be used, and closed, meanwhile.
 *
 * What a tube has is kept for nobody: a wait is woken, tries, and waits again in its old place if another receiver or sender was faster. A wait that is
 * cancelled has sent, or received, nothing. Once it has, also if it was met a moment ago at a tube without slots, it is called back: chappe_async_cancel
 * answers -ESRCH then. What is there at once is taken by the call that begins the wait: if the process ends before the callback, by a kill or by exit(3),
 * such a record is gone, as one that a thread received.
 *
 * Generated from crates/ffi/src/waits.rs by `cargo xtask header`.
 */
#ifndef CHAPPE_WAITS_H
#define CHAPPE_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "dispatch.h"
#include "map.h"
#include "receiver.h"
#include "sender.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * As chappe_send, without waiting: begins a wait, and answers its number, above 0. The record is copied by this call. call is called by chappe_dispatch with
 * 0 when it was sent.
 *
 * Errors: -EMSGSIZE if it is too long, or not of the tube's size; -EBUSY if a wait has the sender, or a slot is reserved at it; -EBADF, -EFAULT; -ENOMEM; the
 * system's, if it has no descriptor left. The callback gets what chappe_send answers; -EUSERS only if no other wait of this process has a place at this
 * end.
 */
int64_t chappe_send_async(chappe_sender *sender,
                          const void *record,
                          size_t size,
                          chappe_done call,
                          void *data);

/**
 * As chappe_recv, without waiting: begins a wait, and answers its number, above 0. call is called by chappe_dispatch with the length of the record, which
 * was copied to to; this, and again, must be there until then.
 *
 * Errors: -EMSGSIZE if there is too little room; -EBUSY if a wait has the receiver, or a record is borrowed at it; -EBADF, -EFAULT; the system's, if it has no
 * descriptor left. The callback gets what chappe_recv answers; -EUSERS only if no other wait of this process has a place at this end.
 */
int64_t chappe_recv_async(chappe_receiver *receiver,
                          void *to,
                          size_t room,
                          bool *again,
                          chappe_done call,
                          void *data);

/**
 * As chappe_map_wait, without waiting: begins a wait, and answers its number, above 0. Key and value are copied by this call. call is called by
 * chappe_dispatch with CHAPPE_MAP_YES when the value of the key is another than seen (NULL: is there); what it has then is to be looked up.
 *
 * Errors: -EBADF, -EFAULT; the system's, if it has no descriptor left. The callback gets what chappe_map_wait answers.
 */
int64_t chappe_map_wait_async(const chappe_map *map,
                              const void *key,
                              size_t key_size,
                              const void *seen,
                              size_t seen_size,
                              chappe_done call,
                              void *data);

#ifdef __cplusplus
}
#endif

#endif
