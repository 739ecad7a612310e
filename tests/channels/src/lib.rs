//! What a program written for crossbeam-channel may rely on: suites that were written against that, and have only another
//! import now.
