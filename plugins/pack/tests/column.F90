! Rows of a Fortran matrix, which are noncontiguous, there and back and packed:
! over mpif.h, or over mpi_f08 where F08 is defined.
program column
#ifdef F08
  use mpi_f08
#endif
  implicit none
#ifdef F08
  type(MPI_Datatype) :: row
  type(MPI_Status) :: state
  type(MPI_Request) :: requests(2)
#else
  include 'mpif.h'
  integer :: row, state(MPI_STATUS_SIZE), requests(2)
#endif
  integer, parameter :: n = 1200
  double precision :: matrix(n, 6), other(n, 6)
  character :: packed(8 * n * 6)
  integer :: error, rank, peer, i, j, place, count
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  peer = 1 - rank
  do j = 1, 6
    do i = 1, n
      matrix(i, j) = i + 10000 * j + 100000 * rank
    end do
  end do
  other = -1
  call MPI_Type_vector(3 * n, 1, 2, MPI_DOUBLE_PRECISION, row, error)
  call MPI_Type_commit(row, error)
  place = 0
  call MPI_Pack(matrix, 1, row, packed, size(packed), place, MPI_COMM_WORLD, error)
  count = place
  place = 0
  call MPI_Unpack(packed, count, place, other, 1, row, MPI_COMM_WORLD, error)
  if (rank == 0) print *, place, sum(other)
  if (rank == 0) then
    call MPI_Send(matrix, 1, row, peer, 1, MPI_COMM_WORLD, error)
    call MPI_Recv(other, 1, row, peer, 2, MPI_COMM_WORLD, state, error)
  else
    call MPI_Recv(other, 1, row, peer, 1, MPI_COMM_WORLD, state, error)
    call MPI_Send(matrix, 1, row, peer, 2, MPI_COMM_WORLD, error)
  end if
  call MPI_Get_count(state, row, count, error)
  if (rank == 0) print *, count, sum(other)
  call MPI_Irecv(other, 1, row, peer, 3, MPI_COMM_WORLD, requests(1), error)
  call MPI_Isend(matrix, 1, row, peer, 3, MPI_COMM_WORLD, requests(2), error)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
  if (rank == 0) print *, sum(other)
  call MPI_Type_free(row, error)
  call MPI_Finalize(error)
end program
