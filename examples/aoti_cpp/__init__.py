"""A model with convt3d's operators as an AOTInductor package, run from C++."""
