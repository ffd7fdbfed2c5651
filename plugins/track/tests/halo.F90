! Conjugate gradients on a ring of strips with halos, in Fortran.
program halo
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer, parameter :: n = 64
  integer :: rank, ranks, left, right, i, step, ierror
#ifdef F08
  type(MPI_Comm) :: ring
  type(MPI_Request) :: requests(4)
#else
  integer :: ring, requests(4)
#endif
  double precision :: x(n), r(n), p(0:n + 1), q(n), rho, rho0, alpha, sums(2), mine(2)
  call MPI_Init(ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., ring, ierror)
  call MPI_Comm_rank(ring, rank, ierror)
  call MPI_Cart_shift(ring, 0, 1, left, right, ierror)
  x = 0
  do i = 1, n
    r(i) = sin(dble(rank*n + i))
  end do
  p = 0
  p(1:n) = r
  mine(1) = sum(r*r)
  call MPI_Allreduce(mine, sums, 1, MPI_DOUBLE_PRECISION, MPI_SUM, ring, ierror)
  rho = sums(1)
  do step = 1, 20
    call MPI_Irecv(p(0), 1, MPI_DOUBLE_PRECISION, left, 1, ring, requests(1), ierror)
    call MPI_Irecv(p(n + 1), 1, MPI_DOUBLE_PRECISION, right, 2, ring, requests(2), ierror)
    call MPI_Isend(p(n), 1, MPI_DOUBLE_PRECISION, right, 1, ring, requests(3), ierror)
    call MPI_Isend(p(1), 1, MPI_DOUBLE_PRECISION, left, 2, ring, requests(4), ierror)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierror)
    do i = 1, n
      q(i) = 4*p(i) - p(i - 1) - p(i + 1)
    end do
    mine(1) = sum(p(1:n)*q)
    call MPI_Allreduce(mine, sums, 1, MPI_DOUBLE_PRECISION, MPI_SUM, ring, ierror)
    alpha = rho/sums(1)
    x = x + alpha*p(1:n)
    r = r - alpha*q
    mine(1) = sum(r*r)
    call MPI_Allreduce(mine, sums, 1, MPI_DOUBLE_PRECISION, MPI_SUM, ring, ierror)
    rho0 = rho
    rho = sums(1)
    p(1:n) = r + rho/rho0*p(1:n)
  end do
  if (rank == 0) print '(a, es12.4)', 'residual', sqrt(rho)
  call MPI_Comm_free(ring, ierror)
  call MPI_Finalize(ierror)
end program
