//! pi and omp (being written).
