! Fortran's bindings: messages, datatypes, collectives, communicators, callbacks, windows, a spawn and, with -DIO,
! files in the directory that it is given. The same program by mpif.h (-DBY_mpif), by `use mpi` (-DBY_mpi) and by
! `use mpi_f08` (-DBY_f08), whose handles are types.
#ifdef BY_f08
#define HANDLE(name) type(name)
#define STATUS type(MPI_Status)
#define SOURCE_OF(status) status%MPI_SOURCE
#define TAG_OF(status) status%MPI_TAG
#define SECOND(status) status(2)%MPI_SOURCE
#else
#define HANDLE(name) integer
#define STATUS integer, dimension(MPI_STATUS_SIZE)
#define SOURCE_OF(status) status(MPI_SOURCE)
#define TAG_OF(status) status(MPI_TAG)
#define SECOND(status) status(MPI_SOURCE, 2)
#endif

#if defined BY_f08
#define BINDING use mpi_f08
#elif !defined BY_mpif
#define BINDING use mpi
#else
#define BINDING
#endif

module common
  BINDING
  use, intrinsic :: iso_c_binding
  implicit none
#ifdef BY_mpif
  include 'mpif.h'
#endif
  integer, parameter :: aint = MPI_ADDRESS_KIND
  integer :: rank, ranks, next, before, failures = 0
  integer :: copied = 0, deleted = 0, handled = 0
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    print '(a,i0,2a)', 'rank ', rank, ': ', what
  end subroutine

  ! ---- what MPI calls ----

  subroutine larger(from, to, count, datatype)
#ifdef BY_f08
    type(c_ptr), value :: from, to
    integer, pointer :: a(:), b(:)
#else
    integer :: from(*), to(*)
#endif
    integer :: count, i
    HANDLE(MPI_Datatype) :: datatype
#ifdef BY_f08
    call c_f_pointer(from, a, [count])
    call c_f_pointer(to, b, [count])
    do i = 1, count
      b(i) = max(a(i), b(i)) + 1
    end do
#else
    do i = 1, count
      to(i) = max(from(i), to(i)) + 1
    end do
#endif
  end subroutine

  subroutine copies(comm, key, extra, from, to, flag, error)
    HANDLE(MPI_Comm) :: comm
    integer :: key, error
    integer(aint) :: extra, from, to
    logical :: flag
    copied = copied + 1
    to = from + extra
    flag = .true.
    error = MPI_SUCCESS
  end subroutine

  subroutine deletes(comm, key, value, extra, error)
    HANDLE(MPI_Comm) :: comm
    integer :: key, error
    integer(aint) :: value, extra
    deleted = deleted + 1
    error = MPI_SUCCESS
  end subroutine

  subroutine handles(comm, code)
    HANDLE(MPI_Comm) :: comm
    integer :: code
    handled = handled + 1
  end subroutine

  subroutine handles_of_window(window, code)
    HANDLE(MPI_Win) :: window
    integer :: code
    handled = handled + 1
  end subroutine
end module

program bindings
  use common
  implicit none
  HANDLE(MPI_Comm) :: parent
  integer :: e, i, provided

  call MPI_Init_thread(MPI_THREAD_SINGLE, provided, e)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, e)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, e)
  next = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)
  call MPI_Comm_get_parent(parent, e)
  if (parent /= MPI_COMM_NULL) then
    call child
    call MPI_Finalize(e)
    stop
  end if
  call messages
  call datatypes
  call by_precision
  call collectives
  call communicators
  call attributes
  call errors
  call windows
  call swaps
  call shared
  call spawns
#ifdef IO
  call files
#endif
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e)
  if (rank == 0 .and. failures == 0) print '(a)', 'ok'
  call MPI_Finalize(e)
  if (failures /= 0) stop 1

contains
  subroutine messages
    integer, parameter :: counts(4) = [1, 100, 5000, 300000]
    HANDLE(MPI_Request) :: requests(2)
    STATUS :: status
#ifdef BY_f08
    type(MPI_Status) :: statuses(2)
#else
    integer :: statuses(MPI_STATUS_SIZE, 2)
#endif
    integer, allocatable :: out(:), in(:)
    double precision :: reals(6), sent(6)
    character(8) :: word
    logical :: flag
    integer :: n, c

    do n = 1, size(counts)
      allocate(out(counts(n)), in(counts(n)))
      out = [(rank * 7 + i, i = 1, counts(n))]
      in = -1
      call MPI_Irecv(in, counts(n), MPI_INTEGER, before, 3, MPI_COMM_WORLD, requests(2), e)
      call MPI_Isend(out, counts(n), MPI_INTEGER, next, 3, MPI_COMM_WORLD, requests(1), e)
      call MPI_Waitall(2, requests, statuses, e)
      call check(all(in == [(before * 7 + i, i = 1, counts(n))]), 'a message of integers')
      call check(SECOND(statuses) == before, 'the source of a message')
      in = -1
      call MPI_Sendrecv(out, counts(n), MPI_INTEGER, next, 4, in, counts(n), MPI_INTEGER, before, 4, &
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE, e)
      call check(all(in == [(before * 7 + i, i = 1, counts(n))]), 'sent and received')
      if (rank == 0) then
        call MPI_Send(out, counts(n), MPI_INTEGER, next, 5, MPI_COMM_WORLD, e)
        call MPI_Ssend(out, counts(n), MPI_INTEGER, next, 6, MPI_COMM_WORLD, e)
      else if (rank == 1) then
        call MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, status, e)
        call MPI_Get_count(status, MPI_INTEGER, c, e)
        call check(c == counts(n) .and. SOURCE_OF(status) == before .and. TAG_OF(status) == 5, 'a probe')
        in = -1
        call MPI_Recv(in, counts(n), MPI_INTEGER, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, status, e)
        call check(all(in == [(before * 7 + i, i = 1, counts(n))]), 'a message after a probe')
        call MPI_Recv(in, counts(n), MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, e)
        call check(TAG_OF(status) == 6, 'a tag')
      end if
      deallocate(out, in)
    end do
    ! Of a section that is not contiguous a copy goes, but by descriptors of mpi_f08.
    sent = [(rank + i / 8d0, i = 1, 6)]
    reals = 0
    call MPI_Sendrecv(sent(1:5:2), 3, MPI_DOUBLE_PRECISION, next, 1, reals(2:6:2), 3, MPI_DOUBLE_PRECISION, before, 1, &
                      MPI_COMM_WORLD, status, e)
    call check(all(reals(2:6:2) == [(before + i / 8d0, i = 1, 5, 2)]) .and. all(reals(1:5:2) == 0d0), 'sections')
    write (word, '(a,i0)') 'rank', rank
    if (rank == 0) call MPI_Send(word, 8, MPI_CHARACTER, next, 9, MPI_COMM_WORLD, e)
    if (rank == 1) then
      call MPI_Recv(word, 8, MPI_CHARACTER, 0, 9, MPI_COMM_WORLD, status, e)
      call check(word == 'rank0', 'characters')
    end if
    flag = rank == 0
    call MPI_Bcast(flag, 1, MPI_LOGICAL, 0, MPI_COMM_WORLD, e)
    call check(flag, 'a logical')
#ifdef BY_f08
    call pieces
#endif
    call persistent
  end subroutine

#ifdef BY_f08
  ! Requests of sections, which only descriptors allow, of each kind of call that is ours.
  subroutine pieces
    type(MPI_Request) :: requests(2)
    type(MPI_Win) :: window
    integer, asynchronous :: matrix(8, 6), other(8, 6)
    integer, volatile :: memory(48)
    call check(MPI_SUBARRAYS_SUPPORTED, 'no subarrays')
    matrix = reshape([(rank * 100 + i, i = 1, 48)], [8, 6])
    other = -1
    call MPI_Irecv(other(2:8:3, 1:6:2), 9, MPI_INTEGER, before, 1, MPI_COMM_WORLD, requests(1), e)
    call MPI_Isend(matrix(2:8:3, 1:6:2), 9, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(2), e)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, e)
    call check(all(other(2:8:3, 1:6:2) == matrix(2:8:3, 1:6:2) + (before - rank) * 100) .and. count(other == -1) == 39, &
               'a section, nonblocking')
    memory = -1
    call MPI_Win_create(memory, 192_aint, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, e)
    call MPI_Win_fence(0, window, e)
    call MPI_Put(matrix(1:8:2, 3), 4, MPI_INTEGER, next, 10_aint, 4, MPI_INTEGER, window, e)
    call MPI_Accumulate(matrix(3, 1:6:2), 3, MPI_INTEGER, next, 20_aint, 3, MPI_INTEGER, MPI_SUM, window, e)
    call MPI_Win_fence(0, window, e)
    call check(all(memory(11:14) == before * 100 + [17, 19, 21, 23]), 'a section put')
    call check(all(memory(21:23) == before * 100 + [2, 18, 34]), 'a section added')
    other = 0
    call MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window, e)
    call MPI_Get(other(1:7:2, 2), 4, MPI_INTEGER, next, 10_aint, 4, MPI_INTEGER, window, e)
    call MPI_Win_unlock(next, window, e)
    call check(all(other(1:7:2, 2) == rank * 100 + [17, 19, 21, 23]), 'a section got')
    call MPI_Win_free(window, e)
  end subroutine
#endif

  subroutine persistent
    HANDLE(MPI_Request) :: requests(2)
    integer, volatile :: out, in
    integer :: round
    call MPI_Send_init(out, 1, MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(1), e)
    call MPI_Recv_init(in, 1, MPI_INTEGER, before, 2, MPI_COMM_WORLD, requests(2), e)
    do round = 1, 5
      out = rank + round
      in = -1
      call MPI_Startall(2, requests, e)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, e)
      call check(in == before + round, 'a persistent message')
    end do
    call MPI_Request_free(requests(1), e)
    call MPI_Request_free(requests(2), e)
  end subroutine

  subroutine datatypes
    type, bind(c) :: particle
      integer(c_int) :: number
      real(c_double) :: at(3)
      character(c_char) :: kind
      logical(c_bool) :: lives
    end type
    type(particle) :: mine(10), theirs(10)
    HANDLE(MPI_Datatype) :: struct, resized, column, row, block, made
    integer(aint) :: displacements(4), start, stop
    integer :: matrix(10, 20), other(10, 20), sizes(2) = [10, 20], parts(2) = [4, 5], starts(2) = [3, 7], packed, bytes
    character :: buffer(4000)

    call MPI_Get_address(mine(1), start, e)
    call MPI_Get_address(mine(1)%number, displacements(1), e)
    call MPI_Get_address(mine(1)%at, displacements(2), e)
    call MPI_Get_address(mine(1)%kind, displacements(3), e)
    call MPI_Get_address(mine(1)%lives, displacements(4), e)
    call MPI_Get_address(mine(2), stop, e)
    displacements = displacements - start
    call MPI_Type_create_struct(4, [1, 3, 1, 1], displacements, &
                                [MPI_INTEGER, MPI_DOUBLE_PRECISION, MPI_CHARACTER, MPI_C_BOOL], struct, e)
    call MPI_Type_create_resized(struct, 0_aint, stop - start, resized, e)
    call MPI_Type_commit(resized, e)
    do i = 1, 10
      mine(i) = particle(rank + i, [1d0, 2d0, 3d0] * (rank + i), achar(65 + rank), mod(i, 2) == 0)
      theirs(i) = particle(0, [0d0, 0d0, 0d0], ' ', .false.)
    end do
    call MPI_Sendrecv(mine(1)%number, 10, resized, next, 1, theirs(1)%number, 10, resized, before, 1, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, e)
    do i = 1, 10
      call check(theirs(i)%number == before + i .and. all(theirs(i)%at == [1d0, 2d0, 3d0] * (before + i)) .and. &
                 theirs(i)%kind == achar(65 + before) .and. (theirs(i)%lives .eqv. mod(i, 2) == 0), 'a structure')
    end do
    ! Of absolute addresses, behind MPI_BOTTOM.
    call MPI_Get_address(mine(3)%at(1), start, e)
    call MPI_Type_create_hindexed(1, [3], [start], MPI_DOUBLE_PRECISION, made, e)
    call MPI_Type_commit(made, e)
    theirs(1)%at = 0
    call MPI_Sendrecv(MPI_BOTTOM, 1, made, next, 1, theirs(1)%at, 3, MPI_DOUBLE_PRECISION, before, 1, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, e)
    call check(all(theirs(1)%at == [1d0, 2d0, 3d0] * (before + 3)), 'behind MPI_BOTTOM')
    call MPI_Type_free(made, e)
    ! Rows, columns and blocks of a matrix.
    matrix = reshape([(rank * 1000 + i, i = 1, 200)], [10, 20])
    call MPI_Type_contiguous(10, MPI_INTEGER, column, e)
    call MPI_Type_vector(20, 1, 10, MPI_INTEGER, row, e)
    call MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INTEGER, block, e)
    call MPI_Type_commit(column, e)
    call MPI_Type_commit(row, e)
    call MPI_Type_commit(block, e)
    other = 0
    call MPI_Sendrecv(matrix(1, 4), 1, column, next, 1, other(1, 2), 10, MPI_INTEGER, before, 1, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, e)
    call check(all(other(:, 2) == matrix(:, 4) + (before - rank) * 1000) .and. count(other /= 0) == 10, 'a column')
    call MPI_Sendrecv(matrix(4, 1), 1, row, next, 1, other(5, 1), 1, row, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, e)
    call check(all(other(5, :) == matrix(4, :) + (before - rank) * 1000), 'a row')
    other = 0
    call MPI_Sendrecv(matrix, 1, block, next, 1, other, 1, block, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, e)
    call check(all(other(4:7, 8:12) == matrix(4:7, 8:12) + (before - rank) * 1000) .and. count(other /= 0) == 20, 'a block')
    packed = 0
    call MPI_Pack(matrix, 1, block, buffer, 4000, packed, MPI_COMM_WORLD, e)
    call MPI_Pack_size(20, MPI_INTEGER, MPI_COMM_WORLD, bytes, e)
    call check(packed == 80 .and. bytes >= 80, 'packed')
    packed = 0
    other = 0
    call MPI_Unpack(buffer, 80, packed, other, 1, block, MPI_COMM_WORLD, e)
    call check(all(other(4:7, 8:12) == matrix(4:7, 8:12)), 'unpacked')
    call MPI_Type_free(struct, e)
    call MPI_Type_free(resized, e)
    call MPI_Type_free(column, e)
    call MPI_Type_free(row, e)
    call MPI_Type_free(block, e)
  end subroutine

  ! Types by their precision are as good as those that they are of: in structures, and in windows.
  subroutine by_precision
    HANDLE(MPI_Datatype) :: double, long, complexes, matched, pairs
    HANDLE(MPI_Win) :: window
    double precision, volatile :: memory(20)
    double precision :: from(4)
    integer :: bytes
    call MPI_Type_create_f90_real(15, 307, double, e)
    call MPI_Type_create_f90_integer(18, long, e)
    call MPI_Type_create_f90_complex(6, 37, complexes, e)
    call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, matched, e)
    call MPI_Type_size(complexes, bytes, e)
    call check(bytes == 8, 'a complex by its precision')
    call MPI_Type_size(long, bytes, e)
    call check(bytes == 8, 'an integer by its range')
    call MPI_Type_vector(2, 1, 3, double, pairs, e)
    call MPI_Type_commit(pairs, e)
    memory = 0
    from = [1d0, 2d0, 3d0, 4d0] * (rank + 1)
    call MPI_Win_create(memory, 160_aint, 8, MPI_INFO_NULL, MPI_COMM_WORLD, window, e)
    call MPI_Win_fence(0, window, e)
    call MPI_Put(from, 2, double, next, 0_aint, 2, double, window, e)
    call MPI_Put(from, 1, pairs, next, 4_aint, 1, pairs, window, e)
    call MPI_Win_fence(0, window, e)
    call MPI_Accumulate(from, 4, matched, next, 10_aint, 4, matched, MPI_SUM, window, e)
    call MPI_Win_fence(0, window, e)
    call check(all(memory(1:2) == [1d0, 2d0] * (before + 1)), 'a put by precision')
    call check(all(memory(5:8) == [1d0, 0d0, 0d0, 4d0] * (before + 1)), 'a put of a vector by precision')
    call check(all(memory(11:14) == [1d0, 2d0, 3d0, 4d0] * (before + 1)), 'an accumulate by precision')
    call MPI_Win_free(window, e)
    call MPI_Type_free(pairs, e)
  end subroutine

  subroutine collectives
    HANDLE(MPI_Op) :: op
    HANDLE(MPI_Request) :: request
    integer :: values(3), results(3), pair(2), located(2)
    integer, allocatable :: all_of(:), counts(:), starts(:)
    real :: x
    double precision :: y(2), sums(2)
    double complex :: z, product
    logical :: is, any_of
    real :: reals(2), most(2)

    call MPI_Barrier(MPI_COMM_WORLD, e)
    values = rank + [1, 2, 3]
    call MPI_Allreduce(values, results, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e)
    call check(all(results == ranks * (ranks - 1) / 2 + ranks * [1, 2, 3]), 'a sum')
    x = rank + 0.5
    call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, e)
    call check(x == ranks - 0.5, 'a maximum')
    y = [1d0, 2d0] * rank
    call MPI_Reduce(y, sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, e)
    if (rank == 0) call check(all(sums == [1d0, 2d0] * (ranks * (ranks - 1) / 2)), 'a reduction')
    z = (0d0, 1d0)
    call MPI_Allreduce(z, product, 1, MPI_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD, e)
    call check(abs(product - z**ranks) < 1d-12, 'a complex product')
    is = rank /= 0
    call MPI_Allreduce(is, any_of, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, e)
    call check(.not. any_of, 'a logical and')
    call MPI_Allreduce(is, any_of, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, e)
    call check(any_of, 'a logical or')
    pair = [100 - rank, rank]
    call MPI_Allreduce(pair, located, 1, MPI_2INTEGER, MPI_MINLOC, MPI_COMM_WORLD, e)
    call check(all(located == [101 - ranks, ranks - 1]), 'a located minimum')
    reals = [real(rank), real(rank)]
    call MPI_Allreduce(reals, most, 1, MPI_2REAL, MPI_MAXLOC, MPI_COMM_WORLD, e)
    call check(all(most == ranks - 1), 'a located maximum')
    call MPI_Op_create(larger, .true., op, e)
    values = [rank, -rank, 5]
    call MPI_Allreduce(values, results, 3, MPI_INTEGER, op, MPI_COMM_WORLD, e)
    call check(results(3) > 5 .and. results(1) >= ranks - 1, 'an operation of one''s own')
    call MPI_Op_free(op, e)
    allocate(all_of(3 * ranks), counts(ranks), starts(ranks))
    call MPI_Allgather(rank, 1, MPI_INTEGER, all_of, 1, MPI_INTEGER, MPI_COMM_WORLD, e)
    call check(all(all_of(1:ranks) == [(i, i = 0, ranks - 1)]), 'gathered')
    counts = [(mod(i, 3), i = 1, ranks)]
    starts = 0
    do i = 2, ranks
      starts(i) = starts(i - 1) + counts(i - 1)
    end do
    all_of = -1
    call MPI_Iallgatherv(values, counts(rank + 1), MPI_INTEGER, all_of, counts, starts, MPI_INTEGER, MPI_COMM_WORLD, request, e)
    call MPI_Wait(request, MPI_STATUS_IGNORE, e)
    if (counts(1) > 0) call check(all_of(1) == 0, 'gathered, nonblocking')
    call check(count(all_of /= -1) >= sum(counts) - 1, 'gathered, all')
    all_of = [(rank * 10 + (i - 1) / 3, i = 1, 3 * ranks)]
    call MPI_Alltoall(MPI_IN_PLACE, 3, MPI_INTEGER, all_of, 3, MPI_INTEGER, MPI_COMM_WORLD, e)
    call check(all(all_of == [((i - 1) / 3 * 10 + rank, i = 1, 3 * ranks)]), 'all to all')
    call MPI_Exscan(rank, i, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e)
    if (rank > 0) call check(i == rank * (rank - 1) / 2, 'a scan')
    if (rank == 0) all_of(1:ranks) = [(i * i, i = 0, ranks - 1)]
    call MPI_Scatter(all_of, 1, MPI_INTEGER, i, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, e)
    call check(i == rank * rank, 'scattered')
  end subroutine

  subroutine communicators
    HANDLE(MPI_Comm) :: copy, half, inter, merged, cart
    HANDLE(MPI_Group) :: group, part
    integer :: size_of, place, got, low, high, coords(1)
    character(MPI_MAX_OBJECT_NAME) :: name
    call MPI_Comm_dup(MPI_COMM_WORLD, copy, e)
    call MPI_Comm_set_name(copy, 'a copy', e)
    call MPI_Comm_get_name(copy, name, i, e)
    call check(name == 'a copy' .and. i == 6, 'a name')
    call MPI_Comm_compare(copy, MPI_COMM_WORLD, i, e)
    call check(i == MPI_CONGRUENT, 'a copy')
    call MPI_Comm_split(copy, mod(rank, 2), -rank, half, e)
    call MPI_Comm_size(half, size_of, e)
    call MPI_Comm_rank(half, place, e)
    call MPI_Allreduce(rank, got, 1, MPI_INTEGER, MPI_MAX, half, e)
    call check(got == rank + 2 * place, 'a split')
    call MPI_Intercomm_create(half, 0, copy, merge(before_last(0), before_last(1), mod(rank, 2) == 1), 8, inter, e)
    call MPI_Intercomm_merge(inter, mod(rank, 2) == 1, merged, e)
    call MPI_Comm_size(merged, got, e)
    call check(got == ranks, 'a merge')
    call MPI_Bcast(got, 1, MPI_INTEGER, 0, merged, e)
    call MPI_Comm_group(copy, group, e)
    call MPI_Group_incl(group, 1, [0], part, e)
    call MPI_Comm_free(half, e)
    call MPI_Comm_create(copy, part, half, e)
    call check((half == MPI_COMM_NULL) .neqv. rank == 0, 'a group of one')
    if (rank == 0) call MPI_Comm_free(half, e)
    call MPI_Cart_create(copy, 1, [ranks], [.true.], .false., cart, e)
    call MPI_Cart_shift(cart, 0, 1, low, high, e)
    call MPI_Cart_coords(cart, rank, 1, coords, e)
    call check(low == before .and. high == next .and. coords(1) == rank, 'a ring')
    call MPI_Group_free(group, e)
    call MPI_Group_free(part, e)
    call MPI_Comm_free(inter, e)
    call MPI_Comm_free(merged, e)
    call MPI_Comm_free(cart, e)
    call MPI_Comm_free(copy, e)
  end subroutine

  ! The highest rank that is odd, or even: it leads its half.
  integer function before_last(odd)
    integer, intent(in) :: odd
    before_last = ranks - 1
    if (mod(before_last, 2) /= odd) before_last = before_last - 1
  end function

  subroutine attributes
    HANDLE(MPI_Comm) :: copy
    HANDLE(MPI_Win) :: window
    integer :: key
    integer(aint) :: value, memory(4)
    logical :: flag
    call MPI_Comm_create_keyval(copies, deletes, key, 5_aint, e)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, key, 37_aint, e)
    call MPI_Comm_dup(MPI_COMM_WORLD, copy, e)
    call MPI_Comm_get_attr(copy, key, value, flag, e)
    call check(flag .and. value == 42 .and. copied == 1, 'an attribute copied')
    call MPI_Comm_free(copy, e)
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, key, e)
    call check(deleted == 2, 'an attribute deleted')
    call MPI_Comm_free_keyval(key, e)
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, e)
    call check(flag .and. value >= 32767, 'the highest tag')
    call MPI_Win_create(memory, 32_aint, 8, MPI_INFO_NULL, MPI_COMM_WORLD, window, e)
    call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, flag, e)
    call check(flag .and. value == 32, 'the size of a window')
    call MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, value, flag, e)
    call check(flag .and. value == 8, 'the unit of a window')
    call MPI_Win_free(window, e)
  end subroutine

  subroutine errors
    HANDLE(MPI_Comm) :: copy
    HANDLE(MPI_Win) :: window
    HANDLE(MPI_Errhandler) :: handler
    integer, volatile :: memory
    integer :: class, length, out
    character(MPI_MAX_ERROR_STRING) :: text
    call MPI_Comm_dup(MPI_COMM_WORLD, copy, e)
    call MPI_Comm_create_errhandler(handles, handler, e)
    call MPI_Comm_set_errhandler(copy, handler, e)
    call MPI_Errhandler_free(handler, e)
    out = 3
    call MPI_Send(out, 1, MPI_INTEGER, ranks + 5, 0, copy, e)
    call MPI_Error_class(e, class, i)
    call check(handled == 1 .and. class == MPI_ERR_RANK, 'a handler of errors, of a send')
    call MPI_Error_string(e, text, length, i)
    call check(length > 0, 'the text of an error')
    call MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN, e)
    call MPI_Send(out, 1, MPI_INTEGER, next, -5, copy, e)
    call MPI_Error_class(e, class, i)
    call check(handled == 1 .and. class == MPI_ERR_TAG, 'an error returned')
    call MPI_Comm_free(copy, e)
    call MPI_Win_create(memory, 4_aint, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, e)
    call MPI_Win_create_errhandler(handles_of_window, handler, e)
    call MPI_Win_set_errhandler(window, handler, e)
    call MPI_Put(out, 1, MPI_INTEGER, next, 0_aint, 1, MPI_INTEGER, window, e)
    call MPI_Error_class(e, class, i)
    call check(handled == 2 .and. class == MPI_ERR_RMA_SYNC, 'a handler of errors, of a put')
    call MPI_Errhandler_free(handler, e)
    call MPI_Win_free(window, e)
  end subroutine

#include "fortran_windows.inc"

  ! Two children, with arguments: each sends to the parent of its number, and they add up.
  subroutine spawns
    HANDLE(MPI_Comm) :: children, all_of_us
    integer :: codes(2), got
    character(256) :: program
    character(8) :: arguments(2)
    call get_command_argument(0, program)
    arguments = ['a word  ', '        ']
    call MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, children, codes, e)
    call check(all(codes == MPI_SUCCESS), 'a spawn')
    call MPI_Comm_remote_size(children, got, e)
    call check(got == 2, 'two children')
    if (rank < 2) then
      call MPI_Recv(got, 1, MPI_INTEGER, rank, 5, children, MPI_STATUS_IGNORE, e)
      call check(got == rank + 50, 'a message of a child')
    end if
    call MPI_Intercomm_merge(children, .false., all_of_us, e)
    call MPI_Allreduce(1, got, 1, MPI_INTEGER, MPI_SUM, all_of_us, e)
    call check(got == ranks + 2, 'merged with the children')
    call MPI_Comm_free(all_of_us, e)
    call MPI_Comm_disconnect(children, e)
  end subroutine

  subroutine child
    HANDLE(MPI_Comm) :: all_of_us
    character(8) :: word
    integer :: got
    call get_command_argument(1, word)
    call MPI_Send(merge(rank + 50, -1, word == 'a word'), 1, MPI_INTEGER, rank, 5, parent, e)
    call MPI_Intercomm_merge(parent, .true., all_of_us, e)
    call MPI_Allreduce(1, got, 1, MPI_INTEGER, MPI_SUM, all_of_us, e)
    call MPI_Comm_free(all_of_us, e)
    call MPI_Comm_disconnect(parent, e)
  end subroutine

#ifdef IO
  ! Columns of a matrix by turns, in all forms of a call, then records by the shared pointer.
  subroutine files
    integer, parameter :: rows = 50, turns = 6
    integer(MPI_OFFSET_KIND), parameter :: start = 16
    HANDLE(MPI_File) :: file
    HANDLE(MPI_Datatype) :: columns
    HANDLE(MPI_Request) :: request
    STATUS :: status
    integer(MPI_OFFSET_KIND) :: bytes
    double precision, asynchronous :: mine(rows, turns), got(rows, turns)
    double precision, allocatable :: whole(:, :)
    integer :: form, unit, n, class, records(4 * 16)
    character(1024) :: directory, name
    logical :: exists
    call get_command_argument(1, directory)
    name = trim(directory) // '/fortran'
    allocate(whole(rows, turns * ranks))
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, e)
    call check(e == MPI_SUCCESS, 'a file opened')
    call MPI_Type_vector(turns, rows, rows * ranks, MPI_DOUBLE_PRECISION, columns, e)
    call MPI_Type_commit(columns, e)
    call MPI_File_set_view(file, start + rank * rows * 8, MPI_DOUBLE_PRECISION, columns, 'native', MPI_INFO_NULL, e)
    do form = 1, 4
      mine = reshape([(rank * 1d6 + form * 1d5 + i, i = 1, rows * turns)], [rows, turns])
      got = 0
      call MPI_File_seek(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, e)
      select case (form)
      case (1)
        call MPI_File_write_all(file, mine, rows * turns, MPI_DOUBLE_PRECISION, status, e)
      case (2)
        call MPI_File_write_at_all_begin(file, 0_MPI_OFFSET_KIND, mine, rows * turns, MPI_DOUBLE_PRECISION, e)
        call MPI_File_write_at_all_end(file, mine, status, e)
      case (3)
        call MPI_File_iwrite_at(file, 0_MPI_OFFSET_KIND, mine, rows * turns, MPI_DOUBLE_PRECISION, request, e)
        call MPI_Wait(request, status, e)
      case (4)
        call MPI_File_iwrite_all(file, mine, rows * turns, MPI_DOUBLE_PRECISION, request, e)
        call MPI_Wait(request, status, e)
      end select
      call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n, e)
      call check(n == rows * turns, 'what was written')
      call MPI_File_sync(file, e)
      call MPI_Barrier(MPI_COMM_WORLD, e)
      open (newunit=unit, file=name, access='stream', status='old', action='read')
      read (unit, pos=start + 1) whole
      close (unit)
      do i = 0, ranks * turns - 1
        call check(all(whole(:, i + 1) == [(mod(i, ranks) * 1d6 + form * 1d5 + (i / ranks) * rows + n, n = 1, rows)]), &
                   'what is in the file')
      end do
      call MPI_File_seek(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, e)
      select case (form)
      case (1)
        call MPI_File_read_all(file, got, rows * turns, MPI_DOUBLE_PRECISION, status, e)
      case (2)
        call MPI_File_read_all_begin(file, got, rows * turns, MPI_DOUBLE_PRECISION, e)
        call MPI_File_read_all_end(file, got, status, e)
      case (3)
        call MPI_File_iread_at_all(file, 0_MPI_OFFSET_KIND, got, rows * turns, MPI_DOUBLE_PRECISION, request, e)
        call MPI_Wait(request, status, e)
      case (4)
        call MPI_File_read(file, got, rows * turns, MPI_DOUBLE_PRECISION, status, e)
      end select
      call check(all(got == mine), 'what was read')
      call MPI_Barrier(MPI_COMM_WORLD, e)
    end do
    call MPI_File_set_size(file, 0_MPI_OFFSET_KIND, e)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, e)
    call MPI_File_write_ordered(file, [(rank * 4 + i, i = 1, 4)], 4, MPI_INTEGER, status, e)
    call MPI_File_seek_shared(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, e)
    call MPI_File_sync(file, e)
    call MPI_Barrier(MPI_COMM_WORLD, e)
    call MPI_File_get_size(file, bytes, e)
    call check(bytes == 16 * ranks, 'the size of a file')
    call MPI_File_read_at(file, 0_MPI_OFFSET_KIND, records, 4 * ranks, MPI_INTEGER, status, e)
    call check(all(records(1:4 * ranks) == [(i, i = 1, 4 * ranks)]), 'records in order')
    call MPI_File_read_shared(file, records, 4, MPI_INTEGER, status, e)
    call check(mod(records(1), 4) == 1, 'a record by the shared pointer')
    call MPI_File_close(file, e)
    call MPI_Type_free(columns, e)
    if (rank == 0) call MPI_File_delete(name, MPI_INFO_NULL, e)
    call MPI_Barrier(MPI_COMM_WORLD, e)
    inquire (file=name, exist=exists)
    call check(.not. exists, 'a file deleted')
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, file, e)
    call MPI_Error_class(e, class, i)
    call check(class == MPI_ERR_NO_SUCH_FILE, 'no such file')
  end subroutine
#endif
end program
