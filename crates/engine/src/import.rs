//! Sessions of other programs: read their files, make events of them, append. (Filled in with the importers.)
