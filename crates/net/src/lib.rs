//! I/O backends: io_uring and epoll behind one trait.
