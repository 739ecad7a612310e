"""A queue for one message, and producers that put one and go: what they have taken must not come back when they end."""
import multiprocessing as mp


def produce(queue, n):
    queue.put(n)
    queue.close()
    queue.join_thread()


def main():
    ctx = mp.get_context("fork")
    queue = ctx.Queue(maxsize=1)
    for n in range(10):
        producer = ctx.Process(target=produce, args=(queue, n))
        producer.start()
        producer.join()
        assert producer.exitcode == 0
        assert queue.full(), "the place that the producer has filled is free"
        try:
            queue.put_nowait("one too many")
            raise AssertionError("two in a queue for one")
        except Exception as full:
            assert type(full).__name__ == "Full", full
        assert queue.get() == n
    print("10 producers gone, never more than 1 in the queue")


if __name__ == "__main__":
    main()
