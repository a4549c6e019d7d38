// hvd: data-parallel training for any C++ tensor type. Everything that is not an adapter or a test aid.
#pragma once

#include <hvd/algorithm/auto.hpp>
#include <hvd/algorithm/halving_doubling.hpp>
#include <hvd/algorithm/hierarchical.hpp>
#include <hvd/algorithm/native.hpp>
#include <hvd/algorithm/ring.hpp>
#include <hvd/algorithm/tree.hpp>
#include <hvd/comm/allgather.hpp>
#include <hvd/comm/allreduce.hpp>
#include <hvd/comm/alltoall.hpp>
#include <hvd/comm/barrier.hpp>
#include <hvd/comm/broadcast.hpp>
#include <hvd/comm/communicator.hpp>
#include <hvd/comm/gather.hpp>
#include <hvd/comm/launch.hpp>
#include <hvd/comm/object.hpp>
#include <hvd/comm/reduce.hpp>
#include <hvd/comm/reduce_scatter.hpp>
#include <hvd/comm/scatter.hpp>
#include <hvd/core/error.hpp>
#include <hvd/core/float16.hpp>
#include <hvd/core/op.hpp>
#include <hvd/core/tensor.hpp>
#include <hvd/core/tensor_list.hpp>
#include <hvd/version.hpp>
