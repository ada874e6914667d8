// Jobs: the durable queue.
