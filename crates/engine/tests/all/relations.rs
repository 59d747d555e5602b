//! What the specification says of how things relate, one test for each sentence.

mod outputs;
