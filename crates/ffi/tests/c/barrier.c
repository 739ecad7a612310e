/* Barriers: rounds and indices, times, choice, breaking, parties, bad input, a death that is told, fork. */
#include "check.h"

static chappe_barrier *b;
static int to_child[2], to_parent[2];

static chappe_barrier_info now(void)
{
    chappe_barrier_info info;
    OK(chappe_barrier_look(b, &info));
    return info;
}

static void *waits(void *to)
{
    IS(chappe_barrier_wait(b, to), 0);
    return NULL;
}

static void *is_broken(void *how)
{
    (void)how;
    FAILS(chappe_barrier_wait(b, NULL), ECANCELED);
    return NULL;
}

/* Two of two go on, with different indices, in the same round. */
static void turns(uint64_t round)
{
    chappe_turn mine, other;
    memset(&mine, 255, sizeof mine);
    memset(&other, 255, sizeof other);
    pthread_t one = thread(waits, &other);
    IS(chappe_barrier_wait(b, &mine), 0);
    joined(one);
    IS(mine.round, round);
    IS(other.round, round);
    IS(mine.index + other.index, 1);
    IS(mine.died + other.died + mine.reserved, 0);
    IS(mine.pid, 0);
}

static void contract(const char *name)
{
    if (name) {
        OK(chappe_barrier_create(name, 2, 0, &b));
        FAILS(chappe_barrier_create(name, 2, 0, &b), EEXIST);
        FAILS(chappe_barrier_open_or_create(name, 3, 0, &b), EPROTOTYPE);
        FAILS(chappe_barrier_open_or_create(name, 2, CHAPPE_BREAKS_ON_DEATH, &b), EPROTOTYPE);
        OK(chappe_barrier_close(b));
        OK(chappe_barrier_open(name, &b));
        OK(chappe_barrier_close(b));
        OK(chappe_barrier_open_or_create(name, 2, 0, &b));
    } else {
        OK(chappe_barrier_private(2, &b));
    }
    char text[16] = "x";
    IS(chappe_barrier_name(b, text, sizeof text), name ? (long)strlen(name) : 0);
    OK(strcmp(text, name ? name : ""));
    IS(chappe_barrier_parties(b), 2);
    turns(0);
    turns(1);
    IS(now().rounds, 2);
    IS(now().parties, 2);
    IS(now().breaks_on_death + now().is_broken, 0);

    /* Times. */
    chappe_turn turn;
    FAILS(chappe_barrier_wait_timeout(b, &turn, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_barrier_wait_timeout(b, &turn, 0), ETIMEDOUT);
    FAILS(chappe_barrier_wait_timeout(b, &turn, -1), EINVAL);
    FAILS(chappe_barrier_wait_deadline(b, &turn, chappe_now()), ETIMEDOUT);
    IS(now().arrived, 0);
    FAILS(chappe_barrier_wait_timeout_or_break(b, &turn, CHAPPE_MILLISECOND), ECANCELED);
    IS(now().is_broken, 1);
    FAILS(chappe_barrier_wait_timeout(b, &turn, CHAPPE_FOREVER), ECANCELED);
    OK(chappe_barrier_reset(b));

    /* Broken and whole again. */
    pthread_t one = thread(is_broken, NULL);
    EVENTUALLY(now().arrived == 1);
    OK(chappe_barrier_reset(b));
    joined(one);
    one = thread(is_broken, NULL);
    EVENTUALLY(now().arrived == 1);
    OK(chappe_barrier_abort(b));
    joined(one);
    is_broken(NULL);
    OK(chappe_barrier_reset(b));
    turns(2);

    /* An arrival. */
    chappe_arrival *arrival;
    OK(chappe_barrier_arrive(b, &arrival));
    IS(chappe_arrival_is_over(arrival), 0);
    FAILS(chappe_barrier_wait(b, NULL), EALREADY);
    FAILS(chappe_barrier_leave(b), EALREADY);
    IS(chappe_arrival_close(arrival), 1);
    IS(now().arrived, 0);
    FAILS(chappe_arrival_wait(arrival, NULL), EBADF);
    OK(chappe_barrier_arrive_once(b, &arrival));
    FAILS(chappe_arrival_wait_timeout(arrival, &turn, CHAPPE_MILLISECOND), ETIMEDOUT);
    FAILS(chappe_arrival_wait(arrival, &turn), EALREADY);
    IS(chappe_arrival_close(arrival), 0);
    OK(chappe_barrier_arrive(b, &arrival));
    one = thread(waits, NULL);
    IS(chappe_arrival_wait_deadline(arrival, &turn, CHAPPE_FOREVER), 0);
    joined(one);
    IS(turn.round, 3);
    FAILS(chappe_arrival_wait(arrival, &turn), EALREADY);
    IS(chappe_arrival_close(arrival), 0);
    OK(chappe_barrier_arrive(b, &arrival));
    FAILS(chappe_arrival_wait_timeout_or_break(arrival, &turn, 0), ECANCELED);
    IS(chappe_arrival_close(arrival), 0);
    OK(chappe_barrier_reset(b));
}

/* A turn among the arms of a choice. */
static void *cannot(void *arrival)
{
    chappe_arm arm = chappe_arm_turn(arrival, NULL);
    FAILS(chappe_select(&arm, 1, 0), EPERM);
    FAILS(chappe_arrival_wait(arrival, NULL), EPERM);
    FAILS(chappe_arrival_is_over(arrival), EPERM);
    FAILS(chappe_arrival_close(arrival), EPERM);
    return NULL;
}

static void chosen(void)
{
    chappe_semaphore *s;
    chappe_arrival *arrival;
    chappe_turn turn = {0};
    OK(chappe_semaphore_private(1, 0, &s));
    OK(chappe_barrier_arrive(b, &arrival));
    chappe_arm arms[2] = {chappe_arm_turn(arrival, &turn), chappe_arm_down(s)};
    IS(chappe_select(arms, 2, 0), 1);
    FAILS(chappe_try_select(arms, 2, 0), EAGAIN);
    FAILS(chappe_select_timeout(arms, 2, 0, CHAPPE_MILLISECOND), ETIMEDOUT);
    IS(now().arrived, 1);
    joined(thread(cannot, arrival));
    pthread_t one = thread(waits, NULL);
    IS(chappe_select(arms, 2, CHAPPE_LOOK), 0);
    IS(chappe_select(arms, 2, 0), 0);
    IS(arms[0].result, 0);
    joined(one);
    IS(turn.round, now().rounds - 1);
    /* It was told. */
    IS(chappe_select(arms, 1, 0), 0);
    IS(arms[0].result, -EALREADY);
    IS(chappe_arrival_close(arrival), 0);
    FAILS(chappe_select(arms, 1, 0), EBADF);
    /* A broken barrier is ready to say so; nowhere is a turn to be written. */
    OK(chappe_barrier_arrive(b, &arrival));
    OK(chappe_barrier_abort(b));
    arms[0] = chappe_arm_turn(arrival, NULL);
    IS(chappe_select(arms, 2, 0), 0);
    IS(arms[0].result, -ECANCELED);
    IS(chappe_arrival_close(arrival), 0);
    OK(chappe_barrier_reset(b));
    OK(chappe_semaphore_close(s));
}

/* Who is a party of a named barrier. */
static void *too_many(void *with)
{
    (void)with;
    FAILS(chappe_barrier_wait(b, NULL), ENOSPC);
    FAILS(chappe_barrier_join(b), ENOSPC);
    return NULL;
}

static void *once(void *with)
{
    (void)with;
    IS(chappe_barrier_wait_once(b, NULL), 0);
    return NULL;
}

static void parties(void)
{
    OK(chappe_barrier_create("one", 1, 0, &b));
    OK(chappe_barrier_join(b));
    FAILS(chappe_barrier_join(b), EALREADY);
    joined(thread(too_many, NULL));
    OK(chappe_barrier_leave(b));
    joined(thread(once, NULL));
    IS(now().joined, 0);
    OK(chappe_barrier_close(b));
    OK(chappe_barrier_remove("one", 0));
}

/* A child that has arrived is killed: the others are told, once. */
static void arrives_and_stays(void)
{
    chappe_arrival *arrival;
    OK(chappe_barrier_arrive_once(b, &arrival));
    tell(to_parent[1]);
    hear(to_child[0]);
}

static void *looks(void *with)
{
    (void)with;
    OK(chappe_barrier_leave(b));
    return NULL;
}

static void death(void)
{
    OK(chappe_barrier_create("deaths", 2, 0, &b));
    OK(chappe_barrier_join(b));
    pid_t victim = child(arrives_and_stays);
    hear(to_parent[0]);
    ended_by_kill(victim);
    /* A thread that joins the arena finds the death. Nobody arrives before: the round would turn with the dead one's arrival. */
    EVENTUALLY((joined(thread(looks, NULL)), now().arrived == 0));
    chappe_turn turn;
    IS(chappe_barrier_wait_timeout(b, &turn, CHAPPE_FOREVER), CHAPPE_PARTY_DIED);
    IS(turn.died, 1);
    IS(turn.pid, victim);
    IS(turn.index, 0);
    OK(chappe_barrier_leave(b));
    OK(chappe_barrier_close(b));
    OK(chappe_barrier_remove("deaths", 0));

    OK(chappe_barrier_create("breaks", 3, CHAPPE_BREAKS_ON_DEATH, &b));
    IS(now().breaks_on_death, 1);
    victim = child(arrives_and_stays);
    hear(to_parent[0]);
    pthread_t one = thread(is_broken, NULL);
    EVENTUALLY(now().arrived == 2);
    ended_by_kill(victim);
    joined(one);
    FAILS(chappe_barrier_wait(b, NULL), ECANCELED);
    CHECK(strstr(chappe_last_error(), "died"));
    OK(chappe_barrier_close(b));
    OK(chappe_barrier_remove("breaks", 1));
}

/* What the parent has is not the child's. */
static chappe_arrival *inherited;

static void in_child(void)
{
    FAILS(chappe_arrival_wait(inherited, NULL), EPERM);
    chappe_arm arm = chappe_arm_turn(inherited, NULL);
    FAILS(chappe_select(&arm, 1, 0), EPERM);
    IS(chappe_arrival_close(inherited), 0);
    FAILS(chappe_arrival_close(inherited), EBADF);
}

static void forked(void)
{
    OK(chappe_barrier_open_or_create("forks", 2, 0, &b));
    OK(chappe_barrier_arrive(b, &inherited));
    ended_well(child(in_child));
    IS(now().arrived, 1);
    IS(chappe_arrival_is_over(inherited), 0);
    FAILS(chappe_barrier_remove("forks", 0), EBUSY);
    /* The arrival keeps what it needs. */
    OK(chappe_barrier_close(b));
    OK(chappe_barrier_remove("forks", 1));
    FAILS(chappe_arrival_wait(inherited, NULL), EIDRM);
    IS(chappe_arrival_close(inherited), 1);
}

/* A thread that ends takes its arrival along; the handle is for any other to close. To be refused makes no thread a member. */
static void *arrives(void *arrival)
{
    OK(chappe_barrier_arrive(b, arrival));
    return NULL;
}

static void *is_no_member(void *arrival)
{
    chappe_arena *arena;
    chappe_capacity before, after;
    OK(chappe_arena_open("default", &arena));
    OK(chappe_arena_capacity(arena, &before));
    cannot(arrival);
    OK(chappe_arena_capacity(arena, &after));
    IS(after.members_used, before.members_used);
    OK(chappe_arena_close(arena));
    return NULL;
}

static void left_behind(void)
{
    chappe_arrival *arrival;
    OK(chappe_barrier_open_or_create("left", 2, 0, &b));
    joined(thread(arrives, &arrival));
    IS(now().arrived, 0);
    FAILS(chappe_arrival_wait(arrival, NULL), EPERM);
    IS(chappe_arrival_close(arrival), 0);
    FAILS(chappe_arrival_close(arrival), EBADF);
    OK(chappe_barrier_arrive(b, &arrival));
    joined(thread(is_no_member, arrival));
    IS(chappe_arrival_close(arrival), 1);
    OK(chappe_barrier_close(b));
    OK(chappe_barrier_remove("left", 1));
}

static void bad_input(void)
{
    chappe_barrier *none;
    chappe_turn turn;
    char odd[sizeof turn + 1];
    FAILS(chappe_barrier_private(0, &none), EINVAL);
    FAILS(chappe_barrier_private(-1, &none), EINVAL);
    FAILS(chappe_barrier_private(CHAPPE_BARRIER_MAX + 1, &none), EINVAL);
    FAILS(chappe_barrier_private(2, NULL), EFAULT);
    FAILS(chappe_barrier_create("x", 2, 2, &none), EINVAL);
    FAILS(chappe_barrier_create("", 2, 0, &none), EINVAL);
    FAILS(chappe_barrier_open("x", &none), ENOENT);
    FAILS(chappe_barrier_remove("x", 0), ENOENT);
    FAILS(chappe_barrier_wait(NULL, NULL), EBADF);
    FAILS(chappe_barrier_close(NULL), EBADF);
    FAILS(chappe_barrier_parties(NULL), EBADF);
    FAILS(chappe_arrival_close(NULL), EBADF);
    OK(chappe_barrier_private(2, &b));
    /* It has not arrived in vain. */
    FAILS(chappe_barrier_wait_timeout(b, (chappe_turn *)(void *)(odd + ((size_t)odd % 2 == 0)), 0), EFAULT);
    IS(now().arrived, 0);
    FAILS(chappe_barrier_arrive(b, NULL), EFAULT);
    FAILS(chappe_barrier_look(b, NULL), EFAULT);
    FAILS(chappe_arrival_wait((chappe_arrival *)(void *)b, NULL), EBADF);
    IS(now().arrived, 0);
    OK(chappe_barrier_close(b));
    FAILS(chappe_barrier_close(b), EBADF);
}

int main(void)
{
    OK(pipe(to_child));
    OK(pipe(to_parent));
    contract(NULL);
    chosen();
    OK(chappe_barrier_close(b));
    contract("b");
    chosen();
    OK(chappe_barrier_close(b));
    OK(chappe_barrier_remove("b", 1));
    parties();
    death();
    forked();
    left_behind();
    bad_input();
    return 0;
}
