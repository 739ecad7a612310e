/*
 * Waits of loops of events for records of tubes, messages of subscriptions, turns of barriers, changes of maps, and the first of several things: see chappe_dispatch(3).
 *
 * A wait has the end of a named tube for itself, from the call that begins it until it is over, which may be before its callback, or cancelled: until then other calls with
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
#include "barrier.h"
#include "choice.h"
#include "dispatch.h"
#include "map.h"
#include "receiver.h"
#include "sender.h"
#include "subscription.h"

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
 * As chappe_subscription_recv, without waiting: as chappe_recv_async, of a subscription. Until the callback each other call with the handle, and its close,
 * answers -EBUSY.
 *
 * Errors: -EMSGSIZE if there is too little room; -EBUSY if a wait has the subscription; -EBADF, -EFAULT; the system's, if it has no descriptor left. The
 * callback gets what chappe_subscription_recv answers.
 */
int64_t chappe_subscription_recv_async(chappe_subscription *subscription,
                                       void *to,
                                       size_t room,
                                       chappe_done call,
                                       void *data);

/**
 * As chappe_barrier_wait_once, without waiting: arrives for the process, begins a wait for the turn, and answers its number, above 0. call is called by
 * chappe_dispatch when the round has turned, with 0 or CHAPPE_PARTY_DIED; the turn is at turn then, unless that is NULL: it must be there until then. A
 * wait that is cancelled takes its arrival back; -ESRCH says that the round has turned: it is called back.
 *
 * Errors: -EBADF, -EFAULT; the system's, if it has no descriptor left. The callback gets what chappe_barrier_wait answers.
 */
int64_t chappe_barrier_wait_async(chappe_barrier *barrier,
                                  chappe_turn *turn,
                                  chappe_done call,
                                  void *data);

/**
 * As chappe_select, without waiting: begins a wait, and answers its number, above 0. call is called by chappe_dispatch with the index of the arm that
 * happened; result and again of that arm are written then, its permit is the process's, and its record has come. The array, and what its arms point to, must
 * be there, and stay as they are, until then; a record that is to be sent is copied by this call. flags: 0 or CHAPPE_BIASED.
 *
 * Arms are as of chappe_select, but none that borrows, locks or waits for a thread's arrival. An end of a named tube, and a subscription, the wait
 * has for itself; a descriptor stays open. A wait that is cancelled has done nothing; once an arm has happened, it is called back (-ESRCH).
 *
 * Errors: -EOPNOTSUPP for another arm, and for one that sends through a private tube without slots; -EBUSY if a wait has an end already, also this one by another arm;
 * else those of chappe_select of which that says that nothing has happened; -EFAULT if call is NULL; the system's, if it has no descriptor left. The callback gets
 * -EXDEV, -EUSERS and the system's.
 */
int64_t chappe_select_async(chappe_arm *arms,
                            size_t n,
                            uint32_t flags,
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
